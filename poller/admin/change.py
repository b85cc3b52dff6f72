"""A change before it is made, as values: what a command asks for, and what that would do.

A `Change` can be printed and compared; it says what becomes of a state, what that does to rows, and what takes it back.
A `Preview` is one change of one version of a document: before, after, and what refuses it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, Self, TypeAlias

from poller.admin.change_result import ChangedRow, ChangeOutput
from poller.admin.editor import Applied, Operator
from poller.admin.effects import NOTHING, Effect
from poller.admin.recovery import Recovery
from poller.admin.request import Allow, ChangeOptions
from poller.admin.wired import WiredPoller
from poller.errors import FieldDifference, PollerError
from poller.lease.state_file import Copy
from poller.model.changes import Transition
from poller.model.document import State
from poller.model.fingerprint import SourceDescription

Base: TypeAlias = Copy | Recovery
"""The version that a change replaces, or what is left of a document that is gone or cannot be read."""
Undo: TypeAlias = Literal["pause", "resume", "restore", "relist"]
"""What takes a change back: a pause, a resume, the backup of what it replaced, or the list of rows that wait."""


class Changing(Protocol):
    """The place of a change, as the change sees it: its operator, and the poller's document."""

    @property
    def poller(self) -> WiredPoller:
        """Whose store, timing and source are used."""
        ...

    @property
    def name(self) -> str:
        """Whose document is changed."""
        ...

    @property
    def request(self) -> ChangeOptions:
        """By whom, why, and what is allowed."""
        ...

    @property
    def operator(self) -> Operator:
        """Who reads and writes the document."""
        ...

    @property
    def source(self) -> SourceDescription:
        """The configured source, with what its configuration leaves to the server, if that answers."""
        ...


@dataclass(frozen=True)
class Change(ABC):
    """What a command asks for. A subclass is a command, its fields are the arguments.

    Attributes:
        kind: the command's name, and the record's kind.
        fenced: it takes the lease, and what it replaces is backed up (all but pause, cancel and resume).
        strict: in production it needs a reason.
        typed: a fenced one wants the name typed; else a `y` is enough.
        skips: it is asked for by the rows that it skips, so that skipping needs no allowance.
        asks: it asks the poller's source, which serves one thread at a time.
    """

    fenced: ClassVar[bool] = True
    strict: ClassVar[bool] = True
    typed: ClassVar[bool] = True
    skips: ClassVar[bool] = False
    asks: ClassVar[bool] = True

    @property
    @abstractmethod
    def kind(self) -> str: ...

    @abstractmethod
    def transition(self, on: Changing) -> Transition:
        """What becomes of a state."""

    def looked(self, on: Changing) -> tuple[Self, Base]:
        """The same with all that has to be asked of the source, and what it replaces.

        Raises: StoreError where there is no document, StateCorrupt; PollerError, if an argument cannot be meant.
        """
        return self, on.operator.look()

    def nothing(self, on: Changing, state: State) -> str | None:
        """Why there is nothing to do, if there is not. Raises: Refused."""
        return None

    def effect(self, on: Changing, state: State) -> Effect:
        """What it does to rows."""
        return NOTHING

    def differences(self, on: Changing, state: State) -> Sequence[FieldDifference]:
        """Between the source that the checkpoint belonged to and the one it will."""
        return ()

    def notes(self, on: Changing, state: State) -> Sequence[str]:
        """For people, from the state before."""
        return ()

    def rows(self, on: Changing, state: State) -> Sequence[ChangedRow]:
        """The single rows that it changes, from the state before."""
        return ()

    def undo(self, state: State) -> Undo | None:
        """What takes it back, by the state that it replaced; None if nothing does."""
        return "restore" if self.fenced else None

    def begin(self, on: Changing, recovery: Recovery) -> Beginning:
        """Where no document can be read. Raises: Refused."""
        raise NotImplementedError(f"{self.kind} needs a document")

    def before_write(self, on: Changing, state: State) -> None:  # noqa: B027 - most do nothing
        """Called with each version that is about to be replaced. Raises: to refuse."""

    def finish(self, on: Changing, state: State, applied: Applied | None) -> Sequence[str]:
        """What is left to do once it was made; with `applied` None there was nothing to do at `state`. Returns notes
        for people."""
        return ()


@dataclass(frozen=True)
class Beginning:
    """A document in the place of one that is gone, cannot be read, or never was.

    Attributes:
        start: what `transition` is applied to. keep: the lease is kept for a full ttl (`Recovery`).
        notes: for people.
    """

    start: State
    transition: Transition
    notes: Sequence[str]
    effect: Effect = NOTHING
    keep: bool = True
    strict: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a change is not made. `allow`: what lets it pass; None if nothing does."""

    error: PollerError
    allow: Allow | None = None


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a change would do.

    Attributes:
        base: the version that was looked at. beginning: where none can be read.
        output: the result as it would be, with `changed` false. lines: before and after, for people.
        refusals: why it is not made, in this order. nothing: why there is nothing to do, if there is not.
        meanwhile: what happened since the last preview, so that it is asked for again.
    """

    change: Change
    base: Base
    output: ChangeOutput
    lines: Sequence[tuple[str, str]] = ()
    refusals: Sequence[Refusal] = ()
    beginning: Beginning | None = None
    nothing: str | None = None
    meanwhile: str | None = None

    @property
    def strict(self) -> bool:
        """True if in production it needs a reason."""
        return self.change.strict if self.beginning is None else self.beginning.strict

    @property
    def typed(self) -> bool:
        """True if a person types the poller's name; else a `y` is enough."""
        return self.change.fenced and self.change.typed

    def refuse(self, allowed: Mapping[Allow, bool]) -> None:
        """Raises: LeaseHeld, Refused, for the first refusal that is not allowed."""
        for one in self.refusals:
            if one.allow is None or not allowed[one.allow]:
                raise one.error
