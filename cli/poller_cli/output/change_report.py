"""What commands that change state show: before and after in one screen, and what was done; or one JSON object."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from poller.admin.editor import Applied, Operator
from poller.admin.effects import NOTHING, Effect
from poller.errors import FieldDifference, plain
from poller.model.checkpoint_file import TAKEN_BACK
from poller.model.document import State
from poller_cli import exits
from poller_cli.output.change_models import ChangeOutput, EffectOutput, FieldDifferenceOutput, Place
from poller_cli.output.models import as_json
from poller_cli.session import Session
from poller_cli.terminal.confirmation import will_ask
from poller_cli.terminal.printing import print_json, printable, printable_lines, tell

if TYPE_CHECKING:
    from poller_cli.guards import Consent


class Report:
    """Tells of one change of the document that `operator` works on."""

    def __init__(self, session: Session, consent: Consent, operator: Operator) -> None:
        self.session = session
        self.consent = consent
        self.operator = operator
        self.name = operator.file.poller_name
        self._said: list[str] = []

    @property
    def shows(self) -> bool:
        """Whether people see a preview: with `--json` only where somebody will be asked."""
        return not self.session.json or will_ask(self.consent)

    def say_preview(self, kind: str, lines: list[tuple[str, str]], notes: list[str]) -> None:
        """One screen for people, before anything is asked."""
        if not self.shows:
            return
        out = sys.stderr if self.session.json else sys.stdout
        lines = [("state", self.operator.file.location), *lines, *(("note", note) for note in notes)]
        print(f"{kind} {self.name}", file=out)
        self._said = notes
        for name, text in lines:
            print(printable(f"{name:<9} {text}", indent="  "), file=out)
        out.flush()

    def preview(
        self,
        kind: str,
        before: State | None,
        after: State | None,
        effect: Effect,
        notes: list[str],
        found: list[FieldDifference] | None = None,
    ) -> ChangeOutput:
        """The output of a change that is not made yet."""
        return ChangeOutput.model_validate(
            {
                "command": kind,
                "name": self.name,
                "app_name": self.operator.file.app_name,
                "document": self.operator.file.location,
                "changed": False,
                "dry_run": self.consent.dry_run,
                "by": self.operator.by,
                "reason": self.operator.reason,
                "before": None if before is None else place_of(before),
                "after": None if after is None else place_of(after),
                "effect": effect_of(effect),
                "source_differences": [
                    FieldDifferenceOutput(field=one.field, before=one.stored, after=one.configured)
                    for one in found or []
                ],
                "notes": notes,
            }
        )

    def idle(self, kind: str, state: State, told: str) -> int:
        """Nothing was to do."""
        return self.report(self.preview(kind, state, state, NOTHING, [told]))

    def done(self, output: ChangeOutput, applied: Applied, effect: Effect) -> ChangeOutput:
        """The output of a change that was made, with its `effect` on what it replaced."""
        notes = list(output.notes)
        undo = None
        if applied.backup is not None and applied.before is not None:
            undo = self.command("reset-to-checkpoint", self.name, applied.backup)
            other_source = applied.before.state.source_fingerprint != applied.after.source_fingerprint
            if output.command not in TAKEN_BACK and (effect.redelivered != 0 or other_source):
                undo += " --allow-skip"
            if other_source:
                notes.append(f"Before it is undone, put the former source back into {self.session.config}.")
        return output.model_copy(
            update={
                "changed": True,
                "id": applied.change.id,
                "before": None if applied.before is None else place_of(applied.before.state),
                "after": place_of(applied.after),
                "effect": effect_of(effect),
                "starts_after_seconds": applied.held,
                "backup": applied.backup,
                "undo": undo,
                "notes": notes,
            }
        )

    def command(self, *words: str) -> str:
        """A command line to copy."""
        return self.session.command(*words)

    def report(self, output: ChangeOutput) -> int:
        """Print what was done, or why nothing was."""
        with surely_told(output):
            return self._print(output)

    def _print(self, output: ChangeOutput) -> int:
        if self.session.json:
            print_json(as_json(output))
            return exits.DONE
        if not output.changed:
            told = "A dry run: nothing was changed." if output.dry_run else "Nothing was changed."
            unsaid = [note for note in output.notes if note not in self._said]
            print(printable(" ".join([*unsaid, told])))
            return exits.DONE
        lines = [("change", f"{(output.id or '')[:8]} by {output.by}")]
        if output.backup:
            lines.append(("backup", output.backup))
        if output.undo:
            lines.append(("undo", output.undo))
        if output.starts_after_seconds:
            lines.append(("wait", f"no worker starts for up to {output.starts_after_seconds:.0f} s"))
        lines += [("note", note) for note in output.notes if note not in self._said]
        print("Done.")
        for name, text in lines:
            print(printable(f"{name:<9} {text}", indent="  "))
        if output.configure is not None:
            checked = self.command("check", self.name)
            print(f"Next: add this to {self.session.config}, change what is to differ, then run: {checked}")
            print(f"\n{printable_lines(output.configure)}")
        return exits.DONE


@contextmanager
def surely_told(*outputs: ChangeOutput) -> Iterator[None]:
    """Around what prints them on stdout: where that fails, stderr says at least which changes were made."""
    try:
        yield
        sys.stdout.flush()
    except OSError:
        for output in outputs:
            if output.changed:
                undo = f"; undo: {output.undo}" if output.undo else ""
                tell(f"{output.name} was changed by {output.command} (id {(output.id or '')[:8]}){undo}")
        raise


def effect_of(effect: Effect) -> EffectOutput:
    """What an output tells of an effect."""
    return EffectOutput(
        redelivered=effect.redelivered,
        skipped=effect.skipped,
        capped=effect.capped,
        open_ended=effect.open_ended,
        not_counted=effect.not_counted,
    )


def place_of(state: State) -> Place:
    """What an output tells of a state."""
    return Place(
        cursor=state.checkpoint.cursor,
        generation=state.checkpoint.generation,
        fencing_token=state.lease.fencing_token,
        owner_id=state.lease.owner_id,
        source_fingerprint=state.source_fingerprint,
        paused=state.control.paused,
        halted=state.control.halted,
        attempts=state.delivery.attempts,
    )


def moves(output: ChangeOutput) -> list[tuple[str, str]]:
    """Before -> after, line by line; what stays is left out, but for the cursor."""
    before, after = output.before, output.after
    if after is None:
        return []
    if before is None:
        return [("cursor", f"{after.cursor or 'the beginning'}"), ("token", str(after.fencing_token))]
    start = before.cursor or "the beginning"
    lines = [
        ("cursor", f"{start} -> {after.cursor or 'the beginning'}" if before.cursor != after.cursor else f"{start}")
    ]
    for name, one, other in (
        ("token", before.fencing_token, after.fencing_token),
        ("attempts", before.attempts, after.attempts),
        ("paused", _yes(before.paused), _yes(after.paused)),
        ("halted", _yes(before.halted), _yes(after.halted)),
    ):
        if one != other:
            lines.append((name, f"{one} -> {other}"))
    lines += [("source", f"{d.field}: {plain(d.before)} -> {plain(d.after)}") for d in output.source_differences]
    if before.source_fingerprint != after.source_fingerprint and not output.source_differences:
        lines.append(("source", f"{before.source_fingerprint or 'unknown'} -> {after.source_fingerprint}"))
    return lines


def _yes(value: bool) -> str:
    return "yes" if value else "no"
