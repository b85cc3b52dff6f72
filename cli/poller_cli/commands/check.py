"""`poller check`: the doctor. Each finding with the statement that fixes it. Reads only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from poller_cli import exits
from poller_cli.session import NamesArgument, Session

if TYPE_CHECKING:
    from poller.app import App
    from poller_cli.output.check_models import PollerCheck


def check(session: Session, names: NamesArgument = None) -> int:
    """Diagnose storage, source and configuration, and suggest fixes. Changes nothing.

    Storage, state document, privileges, columns, key, index, plan, NULLs, time zone, clocks, bound, handler, schedule.
    Exits 1 while an error stands, 4 where the checkpoint belongs to another source.

    Example: poller check orders
    """
    from poller_cli.output.check_models import CheckOutput
    from poller_cli.output.findings import screen
    from poller_cli.output.models import as_json
    from poller_cli.terminal.printing import claim_stdout, print_json

    out = claim_stdout() if session.json else sys.stdout  # importing a handler may print
    with session.app() as app:
        chosen = dict.fromkeys(app.known(name) for name in names) if names else app.pollers
        checked = [_checked(app, name) for name in chosen]
    if session.json:
        ok = all(code == exits.DONE for _, code in checked)
        print_json(as_json(CheckOutput(ok=ok, pollers=[one for one, _ in checked])), out)
    else:
        print("\n\n".join(screen(one) for one, _ in checked))
    return exits.worst(code for _, code in checked)


def _checked(app: App, name: str) -> tuple[PollerCheck, int]:
    """One poller's findings, and what they contribute to the exit code. A poller that cannot be made is a finding."""
    from poller.admin.doctor import FINGERPRINT
    from poller.errors import PollerError
    from poller.model.finding import error
    from poller_cli.output.check_models import PollerCheck
    from poller_cli.output.findings import finding_output

    try:
        poller = app.poller(name)
    except PollerError as refused:
        findings = [error("configuration", refused.message, refused.next_step)]
        code = exits.USAGE if refused.exit_code == exits.USAGE else exits.FAILED
    else:
        findings = poller.check()
        wrong = {one.check for one in findings if one.severity == "error"}
        code = exits.MISMATCH if FINGERPRINT in wrong else exits.FAILED if wrong else exits.DONE
    found = PollerCheck(
        name=name,
        app_name=app.config.app_name,
        errors=sum(one.severity == "error" for one in findings),
        warnings=sum(one.severity == "warn" for one in findings),
        findings=[finding_output(one) for one in findings],
    )
    return found, code
