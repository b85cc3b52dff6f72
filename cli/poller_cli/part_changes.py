"""`pause` and `resume` by name: of a poller, or of a backfill with all its parts, each of which is a document."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from poller.admin.change_result import ChangedPart, ChangeOutput, EffectOutput
from poller.admin.changes import Plan, StateEditor
from poller_cli import exits
from poller_cli.changes import change, request_of
from poller_cli.naming import ConsoleApp, Named
from poller_cli.output.change_report import Report, surely_told
from poller_cli.output.models import as_json
from poller_cli.terminal.confirmation import confirm, will_ask
from poller_cli.terminal.printing import print_json, printable

if TYPE_CHECKING:
    from poller_cli.guards import Consent
    from poller_cli.session import Session


def carry_out(
    session: Session, app: ConsoleApp, named: Named, consent: Consent, plan_for: Callable[[str], Plan]
) -> int:
    """Make the change that `plan_for` gives for a document's name. All parts are shown, then it is asked for once.

    Where it fails on one part, the parts before it are changed: the same command again changes the others.
    Raises: as `StateEditor.carry_out`.
    """
    if len(named.pollers) == 1:
        (poller,) = named.pollers
        return change(session, app, poller, consent, plan_for(poller.name))
    kind = plan_for(named.name).kind
    shows = not session.json or will_ask(consent)
    if shows:
        print(
            f"{kind} {named.name}, which is in {len(named.pollers)} parts",
            file=sys.stderr if session.json else sys.stdout,
            flush=True,
        )
    parts: list[tuple[StateEditor, Report]] = []
    for poller in named.pollers:
        report = _PartReport(session, replace(consent, yes=True, confirm=None), poller.name, production=False)
        parts.append((StateEditor(poller, request_of(consent), report), report))
    if not consent.dry_run:
        if shows:
            for editor, _ in parts:
                nothing = editor.show(plan_for(editor.name))
                if nothing is not None:
                    print(printable(nothing), file=sys.stderr if session.json else sys.stdout, flush=True)
        confirm(consent, named.name, kind, production=None, typed=False)  # a pause or a resume
    outputs: list[ChangeOutput] = []
    for editor, part in parts:
        outputs.append(editor.carry_out(plan_for(editor.name)))
        if not session.json:
            part.report(outputs[-1])
    if session.json:
        with surely_told(*outputs):
            print_json(as_json(_together(app, named, outputs)))
    return exits.DONE


class _PartReport(Report):
    """A preview that was shown before the question is not shown again after it."""

    def __init__(self, session: Session, consent: Consent, name: str, *, production: bool) -> None:
        super().__init__(session, consent, name, production=production)
        self._previews: list[object] = []

    def preview(self, output: ChangeOutput, lines: list[tuple[str, str]]) -> None:
        """See `Report.preview`."""
        if [output.command, lines, output.notes] not in self._previews:
            self._previews.append([output.command, lines, list(output.notes)])
            super().preview(output, lines)


def _together(app: ConsoleApp, named: Named, outputs: list[ChangeOutput]) -> ChangeOutput:
    first = outputs[0]
    return ChangeOutput(
        command=first.command,
        name=named.name,
        app_name=first.app_name,
        document=app.store.locate(f"state/{first.app_name}/{named.name}-*.json"),
        changed=any(one.changed for one in outputs),
        dry_run=first.dry_run,
        by=first.by,
        reason=first.reason,
        before=None,
        after=None,
        effect=EffectOutput(redelivered=0, skipped=0, capped=False, open_ended=False, not_counted=None),
        notes=list(dict.fromkeys(note for one in outputs for note in one.notes)),
        parts=[
            ChangedPart(
                name=one.name, document=one.document, changed=one.changed, id=one.id, before=one.before, after=one.after
            )
            for one in outputs
        ],
    )
