"""`poller status`: is it working, how far behind, who holds it, what is it waiting for. Reads only."""

from __future__ import annotations

from poller_cli import exits
from poller_cli.session import NamedArguments, Session, VerboseOption


def status(session: Session, names: NamedArguments = None, verbose: VerboseOption = False) -> int:
    """Show whether each poller works, is behind, and why; of one, also what to do next. Changes nothing.

    Several are a line each, the worst first, with their backfills that are not finished; one, or each with --verbose,
    is a screen. A backfill's own name shows all of it, finished or not; the name of one in parts, each of its parts.

    Example: poller status orders --json
    """
    from poller_cli.output.status_report import complaints, screens, status_output
    from poller_cli.terminal.printing import complain, print_json

    with session.app() as app:
        looked = app.status(names)
    if session.json:
        print_json(status_output(looked))
    else:
        print("\n\n".join(screens(looked, session, verbose=verbose)))
    for line in complaints(looked):
        complain(line)
    return exits.of_survey(looked)
