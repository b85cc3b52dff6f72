"""`pause` and `resume` by name: of a poller, or of a backfill with all its parts, each of which is a document."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from poller_cli import exits
from poller_cli.changes import Plan, StateEditor
from poller_cli.naming import ConsoleApp, Named
from poller_cli.output.change_models import ChangedPart, ChangeOutput, EffectOutput
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
        return StateEditor(session, app, poller, consent).carry_out(plan_for(poller.name))
    kind = plan_for(named.name).kind
    shows = not session.json or will_ask(consent)
    if shows:
        print(
            f"{kind} {named.name}, which is in {len(named.pollers)} parts",
            file=sys.stderr if session.json else sys.stdout,
            flush=True,
        )
    outputs: list[ChangeOutput] = []
    desks: list[StateEditor] = []
    for poller in named.pollers:
        desk = StateEditor(session, app, poller, replace(consent, yes=True, confirm=None))
        desk.told = _Told(desk.told, outputs)
        desks.append(desk)
    if not consent.dry_run:
        if shows:
            for desk in desks:
                nothing = desk.show(plan_for(desk.name))
                if nothing is not None:
                    print(printable(nothing), file=sys.stderr if session.json else sys.stdout, flush=True)
        confirm(consent, named.name, kind, production=None, typed=False)  # a pause or a resume
    for desk in desks:
        desk.carry_out(plan_for(desk.name))
    if session.json:
        with surely_told(*outputs):
            print_json(as_json(_together(app, named, outputs)))
    return exits.DONE


class _Told(Report):
    """Tells people as ever; what is for programs it keeps."""

    def __init__(self, told: Report, outputs: list[ChangeOutput]) -> None:
        super().__init__(told.session, told.consent, told.operator)
        self._outputs = outputs
        self._previews: list[object] = []

    def say_preview(self, kind: str, lines: list[tuple[str, str]], notes: list[str]) -> None:
        """See `Report.say_preview`; one that was shown before the question is not shown again after it."""
        if [kind, lines, notes] not in self._previews:
            self._previews.append([kind, lines, notes])
            super().say_preview(kind, lines, notes)

    def report(self, output: ChangeOutput) -> int:
        """See `Report.report`."""
        self._outputs.append(output)
        return exits.DONE if self.session.json else super().report(output)


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
