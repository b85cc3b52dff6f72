"""How every command changes state: preview, refusals, confirmation, then one compare-and-swap, then what was done.

The operator confirms a target ("orders goes back to the beginning"), not a version of the document. A worker that
commits while the operator reads only changes where the poller comes from: that is told, what is replaced is backed up
anew, and the change goes on. Whatever else happened in between (another operator's change, a halt, a checkpoint that
went back, because an older document was put back or it was made anew) shows everything again, refuses what has to be
refused now, and asks again.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from poller.admin.editor import Applied, Operator
from poller.admin.effects import BACK, NOTHING, Effect, direction
from poller.admin.refusals import Refused, WrongArgument, clean
from poller.errors import FieldDifference, StateCorrupt
from poller.lease.state_file import Copy
from poller.model.document import Change, State
from poller_cli.output.change_models import ChangeOutput
from poller_cli.output.change_report import Report, moves
from poller_cli.session import Session
from poller_cli.terminal.confirmation import confirm
from poller_cli.terminal.printing import printable, tell

if TYPE_CHECKING:
    from poller.app import App, Poller
    from poller.model.changes import Transition
    from poller_cli.guards import Consent

REASON_LIMIT = 500


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One change, before it is made.

    Attributes:
        kind: the command's name, and the record's kind.
        transition: what becomes of a state.
        effect: what that does to rows.
        nothing: why there is nothing to do, if there is not.
        fenced: whether it takes the lease (all but pause and resume).
        strict: whether production wants the name.
        differences: between the source that the checkpoint belonged to and the one it will.
        notes: for people, from the state before.
    """

    kind: str
    transition: Transition
    effect: Callable[[State], Effect] = lambda _: NOTHING
    nothing: Callable[[State], str | None] = lambda _: None
    fenced: bool = True
    strict: bool = True
    differences: Callable[[State], list[FieldDifference]] = lambda _: []
    notes: Callable[[State], list[str]] = lambda _: []


@dataclass
class _Shown:
    """What the operator was shown last. `copy` is the version that was looked at last; `moved`: its checkpoint is no
    longer the one that was shown."""

    copy: Copy
    effect: Effect
    output: ChangeOutput
    moved: bool = False


class _NothingLeft(Exception):
    """Somebody else made the same change meanwhile: `state` is theirs."""

    def __init__(self, told: str, state: State) -> None:
        super().__init__(told)
        self.state = state


class StateEditor:
    """Where one operator changes one poller's document.

    Args:
        poller: whose store, timing and source are used. name: whose document is changed; default: the poller's.
    """

    def __init__(
        self, session: Session, app: App, poller: Poller, consent: Consent, *, name: str | None = None
    ) -> None:
        self.session = session
        self.app = app
        self.poller = poller
        self.consent = consent
        self.name = name or poller.name
        self.operator = Operator(
            poller.store,
            app_name=poller.app_name,
            poller_name=self.name,
            runtime=poller.runtime,
            timing=poller.options.timing,
            by=identity(),
            reason=reason_of(consent),
        )
        self.told = Report(session, consent, self.operator)

    def show(self, plan: Plan) -> str | None:
        """Only the preview; why there is nothing to do, if there is not. Raises: as `carry_out`."""
        copy = self.operator.look()
        told = plan.nothing(copy.state)
        if told is None:
            self._show(plan, copy)
        return told

    def carry_out(self, plan: Plan) -> int:
        """The whole of it. Raises: LeaseHeld, Refused, StoreError, SourceError."""
        copy = self.operator.look()
        told = plan.nothing(copy.state)
        if told is not None:
            return self.told.idle(plan.kind, copy.state, told)
        shown = self._show(plan, copy)
        if self.consent.dry_run:
            return self.told.report(shown.output)
        self.confirm(plan.kind, strict=plan.strict, typed=plan.fenced)

        def review(copy: Copy) -> None:
            nonlocal shown
            shown = self._again(plan, shown, copy)

        try:
            applied = self._apply(plan, review, copy)
        except _NothingLeft as left:
            return self.told.idle(plan.kind, left.state, str(left))
        effect = shown.effect
        if shown.moved and applied.before is not None:
            effect = plan.effect(applied.before.state)  # counted after the write: before it, a worker would be quicker
            shown.output.notes.append(f"So {'; '.join(effect.lines())}.")
        return self.told.report(self.told.done(shown.output, applied, effect))

    def create_or_replace(self, plan: Plan, create: Callable[[], int], *, overwrite: bool) -> int:
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
            ) from None
        if copy is None:
            return create()
        if not overwrite:
            raise Refused(
                f"{self.name} has a checkpoint already, at {copy.state.checkpoint.cursor or 'the beginning'}; "
                "nothing was changed.",
                next_step="If it is to be replaced, add --overwrite.",
            )
        return self.carry_out(plan)

    def _apply(self, plan: Plan, review: Callable[[Copy], None], base: Copy) -> Applied:
        if not plan.fenced:
            return self.operator.change(plan.kind, plan.transition, review=review, base=base)
        return self.operator.fenced(
            plan.kind, plan.transition, break_lease=self.consent.break_lease, review=review, base=base
        )

    def _show(self, plan: Plan, copy: Copy) -> _Shown:
        """Preview and refusals."""
        state, operator = copy.state, self.operator
        now = operator.file.clock.now()
        change = Change(id="preview", kind=plan.kind, by=operator.by, reason=operator.reason, at=now)
        after = plan.transition(state, change, now)
        busy = operator.busy(copy) if plan.fenced else None
        effect = plan.effect(state)
        notes = plan.notes(state)
        found = plan.differences(state)
        output = self.told.preview(plan.kind, state, after, effect, notes, found)
        lines = moves(output)
        if busy is not None:
            lines.append(("lease", f"{state.lease.owner_id or 'nobody'}, live for up to {busy:.0f} s more"))
        if plan.fenced:
            lines += [("rows", line) for line in effect.lines()]
        self.told.say_preview(plan.kind, lines, notes)
        if plan.fenced:
            operator.refuse_live(copy, break_lease=self.consent.break_lease)
        self.refuse_skipping(effect)
        return _Shown(copy, effect, output)

    def refuse_skipping(self, effect: Effect) -> None:
        """Raises: Refused, where rows would never be delivered and that was not allowed."""
        if effect.skips and not self.consent.allow_skip:
            raise Refused(
                f"{self.name}: {'; '.join(effect.lines())}. Nothing was changed.",
                next_step="If that is meant, add --allow-skip.",
            )

    def _again(self, plan: Plan, shown: _Shown, copy: Copy) -> _Shown:
        """A version that may be another than the one that was shown."""
        before, now = shown.copy.state, copy.state
        if copy.tag == shown.copy.tag:
            return shown
        told = plan.nothing(now)
        if told is not None:
            raise _NothingLeft(told, now)
        why = self._why_again(plan, before, now)
        if why is not None:
            tell(f"{self.name}: {why} meanwhile." + (" It is now:" if self.told.shows else ""))
            shown = self._show(plan, copy)
            self.confirm(plan.kind, strict=plan.strict, typed=plan.fenced)
            return shown
        if before.checkpoint.cursor != now.checkpoint.cursor and plan.fenced:
            line = f"A worker committed meanwhile: the checkpoint was at {now.checkpoint.cursor or 'the beginning'}."
            tell(f"{self.name}: {line}")
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
            if way is None and not self.consent.allow_skip and plan.effect(now).skips:
                return "its checkpoint moved"
        return None

    def confirm(self, kind: str, *, strict: bool, typed: bool = True) -> None:
        """Raises: Refused, unless the operator agreed, by the name where it is to be `typed`; `strict` ones need it in
        production, whatever was allowed beforehand."""
        production = str(self.session.config) if strict and self.app.config.environment == "production" else None
        confirm(self.consent, self.name, kind, production=production, typed=typed)


def reason_of(consent: Consent) -> str | None:
    """What is kept of `--reason`. Raises: WrongArgument, where it is no text, or too long."""
    if consent.reason is None:
        return None
    reason = clean(consent.reason, "--reason").strip()
    if len(reason) > REASON_LIMIT:
        raise WrongArgument(
            f"--reason has {len(reason):,} characters, and at most {REASON_LIMIT} are kept.",
            next_step="Shorten it; nothing was changed.",
        )
    return reason or None


def identity() -> str:
    """Who changes something: `POLLER_OPERATOR`, else user and host."""
    told = os.environ.get("POLLER_OPERATOR", "").strip()
    if not told:
        try:
            user = getpass.getuser()
        except (OSError, KeyError, ImportError):
            user = "unknown"
        told = f"{user}@{socket.gethostname()}"
    return printable(told).encode("utf-8", "replace").decode()[:200]
