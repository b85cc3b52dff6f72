"""A change of state on the console: asked for and printed here, made by `poller.admin.changes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.admin.changes import Plan, Request, StateEditor
from poller_cli.output.change_report import Report

if TYPE_CHECKING:
    from poller.app import App, Poller
    from poller_cli.guards import Consent
    from poller_cli.session import Session


def change(session: Session, app: App, poller: Poller, consent: Consent, plan: Plan) -> int:
    """Preview, ask, change and print. Raises: WrongArgument, and as `StateEditor.carry_out`."""
    report = report_of(session, app, consent, poller.name)
    return report.report(StateEditor(poller, request_of(consent), report).carry_out(plan))


def report_of(session: Session, app: App, consent: Consent, name: str) -> Report:
    """The conversation about a change of the poller `name`."""
    return Report(session, consent, name, production=app.config.environment == "production")


def request_of(consent: Consent) -> Request:
    """What the options ask for."""
    return Request(
        dry_run=consent.dry_run,
        break_lease=consent.break_lease,
        allow_skip=consent.allow_skip,
        reason=consent.reason,
    )
