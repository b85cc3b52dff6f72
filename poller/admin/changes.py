"""How every change of state is made.

A `Change` is what a command asks for. It can be printed and compared; it says what becomes of a state, what that does
to rows, and what takes it back. A `Preview` is one change of one version of a document: before, after, and what refuses
it. `Changes` makes both: `prepare` shows what a change would do, and `apply` makes it by one compare-and-swap.

An operator agrees to a target ("orders goes back to the beginning"), not to a version of the document. A worker that
commits meanwhile only changes where the poller comes from: the result says so, what is replaced is backed up again, and
the change goes on. If anything else happened in between (another operator's change, a halt, a checkpoint that went
back, because an older document was put back or it was made again), `apply` changes nothing and returns a new preview:
show it, ask again, apply that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, Self, TypeAlias

from poller.admin.change_result import ChangedRow, ChangeOutput, FieldDifferenceOutput, moves, place_of, row_lines
from poller.admin.cursors import located
from poller.admin.editor import Applied
from poller.admin.effects import BACK, NOTHING, Effect, direction
from poller.admin.recovery import Recovery
from poller.admin.refusals import Refused
from poller.admin.request import Allow, ChangeOptions, checked_reason, identity
from poller.admin.waiting_rows import no_longer_tried, refuse_rebinding
from poller.admin.wired import WiredPoller, operator_of
from poller.errors import FieldDifference, LeaseHeld, PollerError, StateCorrupt
from poller.lease.state_file import Copy
from poller.model.changes import Transition
from poller.model.document import OperatorChange as Record
from poller.model.document import State
from poller.model.fingerprint import SourceDescription
from poller.model.when import span

Base: TypeAlias = Copy | Recovery
"""The version that a change replaces, or what is left of a document that is gone or cannot be read."""
Undo: TypeAlias = Literal["pause", "resume", "restore", "relist"]
"""What takes a change back: a pause, a resume, the backup of what it replaced, or the list of rows that wait."""


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
    def transition(self, on: Changes) -> Transition:
        """What becomes of a state."""

    def looked(self, on: Changes) -> tuple[Self, Base]:
        """The same with all that has to be asked of the source, and what it replaces.

        Raises: StoreError where there is no document, StateCorrupt; PollerError, if an argument cannot be meant.
        """
        return self, on.operator.look()

    def nothing(self, on: Changes, state: State) -> str | None:
        """Why there is nothing to do, if there is not. Raises: Refused."""
        return None

    def effect(self, on: Changes, state: State) -> Effect:
        """What it does to rows."""
        return NOTHING

    def differences(self, on: Changes, state: State) -> Sequence[FieldDifference]:
        """Between the source that the checkpoint belonged to and the one it will."""
        return ()

    def notes(self, on: Changes, state: State) -> Sequence[str]:
        """For people, from the state before."""
        return ()

    def rows(self, on: Changes, state: State) -> Sequence[ChangedRow]:
        """The single rows that it changes, from the state before."""
        return ()

    def undo(self, state: State) -> Undo | None:
        """What takes it back, by the state that it replaced; None if nothing does."""
        return "restore" if self.fenced else None

    def begin(self, on: Changes, recovery: Recovery) -> Beginning:
        """Where no document can be read. Raises: Refused."""
        raise NotImplementedError(f"{self.kind} needs a document")

    def before_write(self, on: Changes, state: State) -> None:  # noqa: B027 - most do nothing
        """Called with each version that is about to be replaced. Raises: to refuse."""

    def finish(self, on: Changes, state: State, applied: Applied | None) -> Sequence[str]:
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


# --- where it is made -------------------------------------------------------------------------------------------------


class _NothingLeft(Exception):
    """Another made the same change meanwhile: `state` is theirs."""

    def __init__(self, why: str, state: State) -> None:
        super().__init__(why)
        self.state = state


class _ShownAgain(Exception):
    """Something happened that was not agreed to."""

    def __init__(self, preview: Preview) -> None:
        self.preview = preview


class Changes:
    """Where one operator changes one poller's document.

    Args:
        poller: whose store, timing and source are used. request: by whom, why, and what is allowed.
        name: whose document is changed; default: the poller's.

    Attributes:
        operator: who reads and writes the document.

    Raises: WrongArgument, for a reason that is not text or too long.
    """

    def __init__(self, poller: WiredPoller, request: ChangeOptions | None = None, *, name: str | None = None) -> None:
        self.poller = poller
        self.name = name or poller.name
        self.request = request or ChangeOptions()
        self.operator = operator_of(
            poller,
            identity(self.request.by),
            name=self.name,
            reason=checked_reason(self.request.reason, self.request.option("reason")),
            break_option=self.request.option("break_lease"),
        )

    @cached_property
    def source(self) -> SourceDescription:
        """The configured source, with what its configuration leaves to the server, if that answers."""
        return located(self.poller.source)

    def make(self, change: Change) -> ChangeOutput:
        """The whole of it, for a program: its call is the agreement.

        Raises: LeaseHeld, Refused, WriteConflict, StoreError, SourceError.
        """
        with self.poller.alone() if change.asks else nullcontext():
            found: ChangeOutput | Preview = self.prepare(change)
            while isinstance(found, Preview):
                found = self.apply(found)
        return found

    def prepare(self, change: Change, base: Copy | None = None, *, meanwhile: str | None = None) -> Preview:
        """What it would do. Changes nothing.

        Args:
            base: the document as it was just looked at. meanwhile: what happened since the last preview.

        Raises: StoreError, SourceError, and what the change itself refuses.
        """
        found: Base
        change, found = change.looked(self) if base is None else (change, base)
        if isinstance(found, Recovery):
            return self._prepare_first(change, found)
        state, operator = found.state, self.operator
        nothing = change.nothing(self, state)
        if nothing is not None:
            output = self._output(change, state, state, NOTHING, [nothing])
            return Preview(change=change, base=found, output=output, nothing=nothing)
        after = self._after(change, state)
        effect = change.effect(self, state)
        notes = [*change.notes(self, state), *no_longer_tried(self.name, state, after)]
        output = self._output(change, state, after, effect, notes, change.differences(self, state))
        output = output.model_copy(update={"rows": list(change.rows(self, state))})
        lines = [*moves(output), *row_lines(output)]
        busy = operator.busy(found) if change.fenced else None
        if busy is not None:
            lines.append(("lease", f"{state.lease.owner_id or 'another'}, live for up to {span(busy)} more"))
        if change.fenced:
            lines += [("rows", line) for line in effect.lines()]
        refusals = self._refusals(change, found, after, effect)
        return Preview(change=change, base=found, output=output, lines=lines, refusals=refusals, meanwhile=meanwhile)

    def _prepare_first(self, change: Change, recovery: Recovery) -> Preview:
        """Where no document can be read."""
        beginning = change.begin(self, recovery)
        after = self._after(change, beginning.start, beginning)
        effect = beginning.effect
        output = self._output(change, None, after, effect, beginning.notes)
        lines = moves(output, existed=recovery.existed)
        if effect != NOTHING:
            lines += [("rows", line) for line in effect.lines()]
        refusals = self._refusals(change, None, after, effect, start=beginning.start)
        return Preview(change=change, base=recovery, output=output, lines=lines, refusals=refusals, beginning=beginning)

    def apply(self, preview: Preview) -> ChangeOutput | Preview:
        """Make it, unless it is a dry run. A preview comes back if something happened that was not agreed to.

        Raises: LeaseHeld, Refused, WriteConflict, StoreError, SourceError. Nothing was changed then.
        """
        if preview.nothing is not None and isinstance(preview.base, Copy):
            return self._idle(preview.change, preview.base.state, preview.nothing)
        preview.refuse(self.request.allowed)
        if self.request.dry_run:
            return preview.output
        if isinstance(preview.base, Recovery):
            first = preview.beginning
            assert first is not None  # noqa: S101 - prepared where no document can be read
            kind, undid = preview.change.kind, getattr(preview.change, "undid", None)
            applied = preview.base.apply(kind, first.start, first.transition, keep=first.keep, undid=undid)
            return self._done(preview, applied, preview.output.effect)
        return self._replace(preview, preview.base)

    def _replace(self, preview: Preview, base: Copy) -> ChangeOutput | Preview:
        change, operator = preview.change, self.operator
        seen, moved = base, None

        def review(copy: Copy) -> None:
            nonlocal seen, moved
            if copy.tag != seen.tag:
                moved = self._accept(change, seen.state, copy) or moved
                seen = copy
            change.before_write(self, copy.state)

        def facts(state: State) -> dict[str, str | None]:
            return {"undo": change.undo(state), "undid": getattr(change, "undid", None)}

        try:
            if change.fenced:
                applied = operator.fenced(
                    change.kind,
                    change.transition(self),
                    break_lease=self.request.break_lease,
                    review=review,
                    base=base,
                    facts=facts,
                )
            else:
                applied = operator.change(change.kind, change.transition(self), review=review, base=base, facts=facts)
        except _NothingLeft as left:
            return self._idle(change, left.state, str(left))
        except _ShownAgain as again:
            return again.preview
        effect, notes = preview.output.effect, []
        if moved is not None and applied.before is not None:
            effect = change.effect(self, applied.before.state)  # after the write: before it, a worker would be quicker
            notes = [moved, f"So {'; '.join(effect.lines())}."]
        return self._done(preview, applied, effect, notes)

    def _accept(self, change: Change, before: State, copy: Copy) -> str | None:
        """Another version than the one that was seen: what a person should know of it. Raises: Refused, _NothingLeft,
        _ShownAgain."""
        now = copy.state
        nothing = change.nothing(self, now)
        if nothing is not None:
            raise _NothingLeft(nothing, now)
        why = self._unforeseen(change, before, now)
        if why is not None:
            raise _ShownAgain(self.prepare(change, copy, meanwhile=f"{why} meanwhile."))
        refuse_rebinding(self.name, now, self._after(change, now))
        if before.checkpoint.cursor != now.checkpoint.cursor and change.fenced:
            return f"A worker committed meanwhile: the checkpoint was at {now.checkpoint.cursor or 'the beginning'}."
        return None

    def _unforeseen(self, change: Change, before: State, now: State) -> str | None:
        """What happened that no worker's commit explains; None if nothing did."""
        if before.control.last_change != now.control.last_change:
            return "another operator changed it"
        if (
            before.checkpoint.generation != now.checkpoint.generation
            or before.source_fingerprint != now.source_fingerprint
            or before.control.paused != now.control.paused
        ):
            return "another changed it"
        if now.control.halted and not before.control.halted:
            return "it was halted"
        if change.fenced:
            way = direction(before.checkpoint.cursor, now.checkpoint.cursor)
            if way == BACK:
                return "its checkpoint went back"
            if way is None and not self.request.allow_skip and change.effect(self, now).skips:
                return "its checkpoint moved"
        return None

    def _refusals(
        self, change: Change, copy: Copy | None, after: State, effect: Effect, *, start: State | None = None
    ) -> list[Refusal]:
        """Why it is not made, in the order in which it is said."""
        refusals = []
        if change.fenced and copy is not None:
            try:
                self.operator.refuse_live(copy, break_lease=False)
            except LeaseHeld as error:
                refusals.append(Refusal(error, "break_lease"))
        before = copy.state if copy is not None else start
        try:
            refuse_rebinding(self.name, before or after, after)
        except Refused as error:
            refusals.append(Refusal(error))
        if effect.skips and not change.skips:
            skips = Refused(
                f"{self.name}: {'; '.join(effect.lines())}. Nothing was changed.",
                next_step=f"If that is meant, add {self.request.option('allow_skip')}.",
            )
            refusals.append(Refusal(skips, "allow_skip"))
        return refusals

    def _after(self, change: Change, state: State, beginning: Beginning | None = None) -> State:
        """What the change would make of a state now."""
        operator = self.operator
        now = operator.file.clock.now()
        transition = change.transition(self) if beginning is None else beginning.transition
        record = Record(id="preview", kind=change.kind, by=operator.by, reason=operator.reason, at=now)
        return transition(state, record, now)

    # --- results ---------------------------------------------------------------------------------------------------

    def _output(
        self,
        change: Change,
        before: State | None,
        after: State,
        effect: Effect,
        notes: Sequence[str],
        found: Sequence[FieldDifference] = (),
    ) -> ChangeOutput:
        """The result of a change that is not made yet."""
        return ChangeOutput.model_validate(
            {
                "command": change.kind,
                "name": self.name,
                "app_name": self.operator.file.app_name,
                "document": self.operator.file.location,
                "changed": False,
                "dry_run": self.request.dry_run,
                "by": self.operator.by,
                "reason": self.operator.reason,
                "before": None if before is None else place_of(before),
                "after": place_of(after),
                "effect": effect,
                "source_differences": [
                    FieldDifferenceOutput(field=one.field, before=one.stored, after=one.configured) for one in found
                ],
                "notes": list(notes),
            }
        )

    def _idle(self, change: Change, state: State, why: str) -> ChangeOutput:
        """Nothing was to do."""
        more = () if self.request.dry_run else change.finish(self, state, None)
        return self._output(change, state, state, NOTHING, [why, *more])

    def _done(self, preview: Preview, applied: Applied, effect: Effect, meanwhile: Sequence[str] = ()) -> ChangeOutput:
        """The result of a change that was made, with its `effect` on what it replaced."""
        change, before = preview.change, None if applied.before is None else applied.before.state
        notes = [*preview.output.notes, *meanwhile]
        undo = None
        if before is not None and change.fenced and change.undo(before) is not None:
            undo = self.request.command("undo", self.name, "--change", applied.change.id[:8])
            if before.source_fingerprint != applied.after.source_fingerprint:
                notes.append(f"Before it is undone, put the former source back into {self.request.configuration}.")
        notes += change.finish(self, applied.after, applied)
        return preview.output.model_copy(
            update={
                "changed": True,
                "id": applied.change.id,
                "before": None if before is None else place_of(before),
                "after": place_of(applied.after),
                "effect": effect,
                "starts_after_seconds": applied.held,
                "backup": applied.backup,
                "undo": undo,
                "notes": notes,
                "rows": list(preview.output.rows if before is None else change.rows(self, before)),
            }
        )


def there_or_first(on: Changes, *, overwrite: bool) -> Base:
    """What a change replaces that makes a first document, or with `overwrite` replaces the one that is there.

    Raises: Refused (there is a checkpoint already), StateCorrupt, StoreError.
    """
    try:
        copy = on.operator.file.read()
    except StateCorrupt as error:
        raise StateCorrupt(
            error.message,
            document=error.document,
            next_step=f"Put it back first: poller reset-to-checkpoint {on.name} FILE.",
            what=error.what,
        ) from None
    if copy is None:
        return Recovery(on.operator)
    if not overwrite:
        raise Refused(
            f"{on.name} has a checkpoint already, at {copy.state.checkpoint.cursor or 'the beginning'}; "
            "nothing was changed.",
            next_step=f"If it is to be replaced, add {on.request.option('overwrite')}.",
        )
    return copy
