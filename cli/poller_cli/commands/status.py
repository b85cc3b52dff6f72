"""`poller status`: is it working, how far behind, who holds it, what is it waiting for. Reads only."""

from __future__ import annotations

from poller_cli import exits
from poller_cli.session import NamedArguments, Session


def status(session: Session, names: NamedArguments = None) -> int:
    """Show where each poller stands: cursor, lag, rows pending, lease, bound; and beneath it its backfills that are not
    finished. Changes nothing.

    A backfill's own name shows all of it, finished or not; the name of one in parts, each of its parts.

    Example: poller status orders --json
    """
    from poller_cli.output.status_report import complaints, screens, status_output
    from poller_cli.terminal.printing import complain, print_json

    with session.app() as app:
        looked = app.status(names)
    if session.json:
        print_json(status_output(looked))
    else:
        print("\n\n".join(screens(looked, session)))
    for line in complaints(looked):
        complain(line)
    return exits.of_survey(looked)
