"""How every change of state is made: preview, refusals, agreement, then one compare-and-swap, then what was done.

Whoever asks for a change agrees to a target ("orders goes back to the beginning"), not to a version of the document. A
worker that commits meanwhile only changes where the poller comes from: the result says so, what is replaced is backed
up anew, and the change goes on. Whatever else happened in between (another operator's change, a halt, a checkpoint that
went back, because an older document was put back or it was made anew) shows everything again, refuses what has to be
refused now, and asks again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from poller.admin.change_result import ChangeOutput, FieldDifferenceOutput, moves, place_of, row_lines
from poller.admin.conversation import Conversation
from poller.admin.editor import Applied
from poller.admin.effects import BACK, NOTHING, Effect, direction
from poller.admin.plans import Plan
from poller.admin.recovery import Recovery
from poller.admin.refusals import Refused
from poller.admin.request import Request, checked_reason, identity
from poller.admin.waiting_rows import no_longer_tried, refuse_rebinding
from poller.admin.wired import WiredPoller, operator_of
from poller.errors import FieldDifference, StateCorrupt
from poller.lease.state_file import Copy
from poller.model.changes import Transition
from poller.model.checkpoint_file import TAKEN_BACK
from poller.model.document import Change, State
from poller.model.when import span


@dataclass
class _Shown:
    """The last preview. `copy` is the version that was looked at last; `moved`: its checkpoint is no longer the one of
    the preview."""

    copy: Copy
    effect: Effect
    output: ChangeOutput
    moved: bool = False


class _NothingLeft(Exception):
    """Somebody else made the same change meanwhile: `state` is theirs."""

    def __init__(self, why: str, state: State) -> None:
        super().__init__(why)
        self.state = state


class StateEditor:
    """Where one operator changes one poller's document.

    Args:
        poller: whose store, timing and source are used. name: whose document is changed; default: the poller's.

    Raises: WrongArgument, for a reason that is not text or too long.
    """

    def __init__(
        self,
        poller: WiredPoller,
        request: Request | None = None,
        conversation: Conversation | None = None,
        *,
        name: str | None = None,
    ) -> None:
        self.name = name or poller.name
        self.request = request or Request()
        self.conversation = conversation or Conversation()
        self.operator = operator_of(
            poller,
            identity(self.request.by),
            name=self.name,
            reason=checked_reason(self.request.reason, self.conversation.option("reason")),
            break_option=self.conversation.option("break_lease"),
        )

    def show(self, plan: Plan) -> str | None:
        """Only the preview; why there is nothing to do, if there is not. Raises: as `carry_out`."""
        copy = self.operator.look()
        why = plan.nothing(copy.state)
        if why is None:
            self._show(plan, copy)
        return why

    def carry_out(self, plan: Plan, base: Copy | None = None) -> ChangeOutput:
        """The whole of it; `base`: the document as it was just looked at. Raises: LeaseHeld, Refused, WriteConflict,
        StoreError, SourceError."""
        copy = base or self.operator.look()
        why = plan.nothing(copy.state)
        if why is not None:
            return self._idle(plan.kind, copy.state, why)
        shown = self._show(plan, copy)
        if self.request.dry_run:
            return shown.output
        self._confirm(plan)

        def review(copy: Copy) -> None:
            nonlocal shown
            shown = self._again(plan, shown, copy)

        try:
            applied = self._apply(plan, review, copy)
        except _NothingLeft as left:
            return self._idle(plan.kind, left.state, str(left))
        effect = shown.effect
        if shown.moved and applied.before is not None:
            effect = plan.effect(applied.before.state)  # counted after the write: before it, a worker would be quicker
            shown.output.notes.append(f"So {'; '.join(effect.lines())}.")
        return self._done(shown.output, applied, effect, plan)

    def create_or_replace(self, plan: Plan, create: Callable[[], ChangeOutput], *, overwrite: bool) -> ChangeOutput:
        """Where there is no document `create`; else, where that is wanted, the change that `plan` is of it.

        Raises: Refused (there is a checkpoint already), LeaseHeld, StateCorrupt, StoreError, SourceError.
        """
        try:
            copy = self.operator.file.read()
        except StateCorrupt as error:
            raise StateCorrupt(
                error.message,
                document=error.document,
                next_step=f"Put it back first: poller reset-to-checkpoint {self.name} FILE.",
                what=error.what,
            ) from None
        if copy is None:
            return create()
        if not overwrite:
            raise Refused(
                f"{self.name} has a checkpoint already, at {copy.state.checkpoint.cursor or 'the beginning'}; "
                "nothing was changed.",
                next_step=f"If it is to be replaced, add {self.conversation.option('overwrite')}.",
            )
        return self.carry_out(plan)

    def create(
        self,
        recovery: Recovery,
        kind: str,
        start: State,
        transition: Transition,
        *,
        lines: Callable[[State], list[tuple[str, str]]],
        notes: list[str],
        effect: Effect = NOTHING,
        strict: bool = True,
        keep: bool = True,
    ) -> ChangeOutput:
        """What `transition` makes of `start`, where there is no document that can be read.

        Args:
            lines: of the preview, from the state as it would be. keep: the lease, for a full ttl (see `Recovery`).
        Raises: Refused, StoreError.
        """
        operator = self.operator
        now = operator.file.clock.now()
        change = Change(id="preview", kind=kind, by=operator.by, reason=operator.reason, at=now)
        after = transition(start, change, now)
        output = self._output(kind, None, after, effect, notes)
        self.conversation.preview(output, lines(after))
        refuse_rebinding(self.name, start, after)
        self._refuse_skipping(effect)
        if self.request.dry_run:
            return output
        self.conversation.confirm(kind, strict=strict, typed=True)
        return self._done(output, recovery.apply(kind, start, transition, keep=keep), effect)

    def _apply(self, plan: Plan, review: Callable[[Copy], None], base: Copy) -> Applied:
        def before(copy: Copy) -> None:
            review(copy)
            plan.before_write(copy.state)

        if not plan.fenced:
            return self.operator.change(plan.kind, plan.transition, review=before, base=base)
        return self.operator.fenced(
            plan.kind, plan.transition, break_lease=self.request.break_lease, review=before, base=base
        )

    def _show(self, plan: Plan, copy: Copy) -> _Shown:
        """Preview and refusals."""
        state, operator = copy.state, self.operator
        after = self._preview(plan, state)
        busy = operator.busy(copy) if plan.fenced else None
        effect = plan.effect(state)
        notes = [*plan.notes(state), *no_longer_tried(self.name, state, after)]
        output = self._output(plan.kind, state, after, effect, notes, plan.differences(state))
        output = output.model_copy(update={"rows": plan.rows(state)})
        lines = [*moves(output), *row_lines(output)]
        if busy is not None:
            lines.append(("lease", f"{state.lease.owner_id or 'nobody'}, live for up to {span(busy)} more"))
        if plan.fenced:
            lines += [("rows", line) for line in effect.lines()]
        self.conversation.preview(output, lines)
        if plan.fenced:
            operator.refuse_live(copy, break_lease=self.request.break_lease)
        refuse_rebinding(self.name, state, after)
        if not plan.skips:
            self._refuse_skipping(effect)
        return _Shown(copy, effect, output)

    def _preview(self, plan: Plan, state: State) -> State:
        """What the change would make of a state now."""
        operator = self.operator
        now = operator.file.clock.now()
        return plan.transition(
            state, Change(id="preview", kind=plan.kind, by=operator.by, reason=operator.reason, at=now), now
        )

    def _refuse_skipping(self, effect: Effect) -> None:
        """Raises: Refused, where rows would never be delivered and that was not allowed."""
        if effect.skips and not self.request.allow_skip:
            raise Refused(
                f"{self.name}: {'; '.join(effect.lines())}. Nothing was changed.",
                next_step=f"If that is meant, add {self.conversation.option('allow_skip')}.",
            )

    def _again(self, plan: Plan, shown: _Shown, copy: Copy) -> _Shown:
        """A version that may be another than the one of the preview."""
        before, now = shown.copy.state, copy.state
        if copy.tag == shown.copy.tag:
            return shown
        nothing = plan.nothing(now)
        if nothing is not None:
            raise _NothingLeft(nothing, now)
        why = self._why_again(plan, before, now)
        if why is None:
            refuse_rebinding(self.name, now, self._preview(plan, now))
        else:
            self.conversation.meanwhile(f"{why} meanwhile.", again=True)
            shown = self._show(plan, copy)
            self._confirm(plan)
            return shown
        if before.checkpoint.cursor != now.checkpoint.cursor and plan.fenced:
            line = f"A worker committed meanwhile: the checkpoint was at {now.checkpoint.cursor or 'the beginning'}."
            self.conversation.meanwhile(line, again=False)
            shown.output.notes[:] = [*(note for note in shown.output.notes if "meanwhile" not in note), line]
            shown.moved = True
        shown.copy = copy
        return shown

    def _why_again(self, plan: Plan, before: State, now: State) -> str | None:
        """What happened that no worker's commit explains; None where nothing did."""
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
        if plan.fenced:
            way = direction(before.checkpoint.cursor, now.checkpoint.cursor)
            if way == BACK:
                return "its checkpoint went back"
            if way is None and not self.request.allow_skip and plan.effect(now).skips:
                return "its checkpoint moved"
        return None

    def _confirm(self, plan: Plan) -> None:
        self.conversation.confirm(plan.kind, strict=plan.strict, typed=plan.fenced and plan.typed)

    # --- results ---------------------------------------------------------------------------------------------------

    def _output(
        self,
        kind: str,
        before: State | None,
        after: State,
        effect: Effect,
        notes: list[str],
        found: list[FieldDifference] | None = None,
    ) -> ChangeOutput:
        """Of a change that is not made yet."""
        return ChangeOutput.model_validate(
            {
                "command": kind,
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
                    FieldDifferenceOutput(field=one.field, before=one.stored, after=one.configured)
                    for one in found or []
                ],
                "notes": notes,
            }
        )

    def _idle(self, kind: str, state: State, why: str) -> ChangeOutput:
        """Nothing was to do."""
        return self._output(kind, state, state, NOTHING, [why])

    def _done(self, output: ChangeOutput, applied: Applied, effect: Effect, plan: Plan | None = None) -> ChangeOutput:
        """Of a change that was made, with its `effect` on what it replaced."""
        notes = list(output.notes)
        undo = None
        rows = output.rows if plan is None or applied.before is None else plan.rows(applied.before.state)
        restorable = plan is None or plan.restorable
        if restorable and applied.backup is not None and applied.before is not None:
            undo = self.conversation.command("reset-to-checkpoint", self.name, applied.backup)
            other_source = applied.before.state.source_fingerprint != applied.after.source_fingerprint
            if output.command not in TAKEN_BACK and (effect.redelivered != 0 or other_source):
                undo += " --allow-skip"
            if other_source:
                notes.append(f"Before it is undone, put the former source back into {self.conversation.configuration}.")
        return output.model_copy(
            update={
                "changed": True,
                "id": applied.change.id,
                "before": None if applied.before is None else place_of(applied.before.state),
                "after": place_of(applied.after),
                "effect": effect,
                "starts_after_seconds": applied.held,
                "backup": applied.backup,
                "undo": undo,
                "notes": notes,
                "rows": rows,
            }
        )
