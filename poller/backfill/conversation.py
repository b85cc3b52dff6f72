"""What a backfill shows and asks before rows are delivered, and says while they are."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

from poller.admin.request import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from poller.backfill.parts import Part
    from poller.backfill.ranges import Range
    from poller.backfill.wired import LivePoller


class Preview(Protocol):
    """What a backfill is going to do.

    `pending`: rows that will be delivered, and whether there are more; None where the database does not count them.
    """

    @property
    def poller(self) -> LivePoller: ...
    @property
    def name(self) -> str: ...
    @property
    def range(self) -> Range: ...
    @property
    def pending(self) -> tuple[int, bool] | None: ...
    @property
    def parts(self) -> Sequence[Part]: ...
    def count_of(self, part: Part) -> tuple[int, bool] | None:
        """As `pending`, of one part."""
        ...


class Conversation:
    """With whoever asked for a backfill. As it stands with a program: its call is the agreement, and the result says
    everything.

    Args:
        file: see `poller.admin.request.Request`.
    """

    _file = ""
    again = "make the same call"
    """How one asks for the same again."""

    def __init__(self, file: str = "") -> None:
        self._file = file

    def command(self, *words: str) -> str:
        """A command line to copy."""
        return Request(file=self._file).command(*words)

    def option(self, name: str, value: object = None) -> str:
        """How one gives `begins`, `ends`, `name`, `parallel` or `retry`, or a value of it: in the console `--as`, or
        `--as replay`."""
        return "retry=True" if name == "retry" else name if value is None else f"{name}={value!r}"

    def notice(self, line: str) -> None:
        """Something to know that is no error."""

    def preview(self, work: Preview) -> None:
        """What it would do, before it is agreed to."""

    def confirm(self, name: str) -> None:
        """Return when it is agreed to; `name`: of the live poller. Raises: Refused."""

    def delivering(self, work: Preview, parts: Sequence[Part]) -> AbstractContextManager[object]:  # noqa: ARG002
        """Around the delivery of these parts."""
        return nullcontext()

    def ended(self, part: Part, next_step: str | None) -> None:
        """No more of this part is delivered now: it is finished, or its `error` says why not. `next_step`: what to do
        about one that was paused or halted."""
