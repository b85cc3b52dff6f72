"""What `pause`, `cancel` and `resume` of a backfill show: all its parts before they ask, and what was done to each."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from poller.admin.change_result import ChangeOutput
from poller.backfill.changes import Conversation, Kind, change
from poller_cli import exits
from poller_cli.output.change_report import Report, surely_reported
from poller_cli.terminal.confirmation import confirm, will_ask
from poller_cli.terminal.printing import print_json, printable

if TYPE_CHECKING:
    from poller.app import App, Named
    from poller_cli.session import Session
    from poller_cli.terminal.confirmation import Consent


def change_backfill(
    session: Session, app: App, named: Named, consent: Consent, kind: Kind, *, wait: bool = True
) -> int:
    """Preview, ask, change and print. Raises: WrongArgument, and as `poller.backfill.changes.change`."""
    report = PartsReport(session, app, consent, named)
    return report.report(change(app.backfills, named.documents, kind, consent, report, wait=wait))


class PartsReport(Conversation):
    """The console's, about a change of a backfill."""

    def __init__(self, session: Session, app: App, consent: Consent, named: Named) -> None:
        super().__init__(str(session.config))
        self._session = session
        self._app = app
        self._consent = consent
        self._name = named.name
        self._whole = len(named.documents) == 1
        self._parts: dict[str, Report] = {}

    @property
    def shows(self) -> bool:
        """Whether people see a preview: with `--json` only where somebody will be asked."""
        return not self._session.json or will_ask(self._consent)

    @property
    def _out(self) -> TextIO:
        return sys.stderr if self._session.json else sys.stdout

    def part(self, name: str) -> Report:
        """The report on one part; where there are several, they are agreed to together."""
        if name not in self._parts:
            silent = replace(self._consent, yes=True, confirm=None)
            self._parts[name] = (
                Report(self._session, self._app, self._consent, name)
                if self._whole
                else _PartReport(self._session, self._app, silent, name)
            )
        return self._parts[name]

    def begin(self, kind: str, parts: int) -> None:
        """The first line of the preview."""
        if self.shows:
            print(f"{kind} {self._name}, which is in {parts} parts", file=self._out, flush=True)

    def nothing(self, why: str) -> None:
        """A line of the preview."""
        print(printable(why), file=self._out, flush=True)

    def confirm(self, kind: str) -> None:
        """Ask once, unless it was agreed to beforehand. Raises: Refused."""
        confirm(self._consent, self._name, kind, production=None, typed=False)  # a pause or a resume

    def changed(self, output: ChangeOutput) -> None:
        """Print what was done to one part at once: the next may fail."""
        if not self._session.json:
            self._parts[output.name].report(output)

    def report(self, output: ChangeOutput) -> int:
        """Print what is not printed yet."""
        if self._whole:
            (only,) = self._parts.values()
            return only.report(output)
        if self._session.json:
            with surely_reported(output):
                print_json(output)
        return exits.DONE


class _PartReport(Report):
    """A preview that was shown before the question is not shown again after it."""

    def __init__(self, session: Session, app: App, consent: Consent, name: str) -> None:
        super().__init__(session, app, consent, name)
        self._previews: list[object] = []

    def preview(self, output: ChangeOutput, lines: list[tuple[str, str]]) -> None:
        """See `Report.preview`."""
        if [output.command, lines, output.notes] not in self._previews:
            self._previews.append([output.command, lines, list(output.notes)])
            super().preview(output, lines)
