"""With whom a backfill talks: a person at a terminal, or a program that agreed by its call."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

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


class Conversation(Protocol):
    """With whoever asked for a backfill."""

    @property
    def again(self) -> str:
        """How one asks for the same again: `run the same command`."""
        ...

    def option(self, name: str, value: object = None) -> str:
        """How one gives `begins`, `ends`, `name`, `parallel` or `retry`: `--as`, or with a value `--as replay`."""
        ...

    def notice(self, line: str) -> None:
        """Something to know that is no error."""
        ...

    def preview(self, work: Preview) -> None:
        """What it would do, before it is agreed to."""
        ...

    def confirm(self, name: str) -> None:
        """Return when it is agreed to; `name`: of the live poller. Raises: Refused."""
        ...

    def delivering(self, work: Preview, parts: Sequence[Part]) -> AbstractContextManager[object]:
        """Around the delivery of these parts."""
        ...

    def ended(self, part: Part, next_step: str | None) -> None:
        """No more of this part is delivered now: it is finished, or its `error` says why not. `next_step`: what to do
        about one that was paused or halted."""
        ...


class AgreedByCall:
    """The conversation with a program: its call is the agreement, and the result says everything."""

    again = "make the same call"

    def option(self, name: str, value: object = None) -> str:
        """See `Conversation`."""
        return "retry=True" if name == "retry" else name if value is None else f"{name}={value!r}"

    def notice(self, line: str) -> None:
        """See `Conversation`."""

    def preview(self, work: Preview) -> None:
        """See `Conversation`: a dry run returns it."""

    def confirm(self, name: str) -> None:
        """See `Conversation`."""

    def delivering(self, work: Preview, parts: Sequence[Part]) -> AbstractContextManager[object]:  # noqa: ARG002
        """See `Conversation`."""
        return nullcontext()

    def ended(self, part: Part, next_step: str | None) -> None:
        """See `Conversation`."""
