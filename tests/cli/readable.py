"""Whether something can be read: `select.select` ends at descriptor 1,024, which a long run of tests passes."""

from __future__ import annotations

import select
from typing import Protocol


class Readable(Protocol):
    """What has a descriptor."""

    def fileno(self) -> int: ...


def readable(one: Readable, seconds: float | None) -> bool:
    """Whether it can be read, or has ended, within so many seconds; None: however long it takes."""
    asked = select.poll()
    asked.register(one.fileno(), select.POLLIN)
    return bool(asked.poll(None if seconds is None else seconds * 1_000))
