from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.dispatching import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    """Makes a shop of so many pollers."""
    made: list[Shop] = []

    def make(pollers: int, **options: Any) -> Shop:
        made.append(Shop(tmp_path, pollers, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
