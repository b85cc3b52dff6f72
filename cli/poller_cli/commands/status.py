"""`poller status`: is it working, how far behind, who holds it, what is it waiting for. Reads only."""

from __future__ import annotations

from poller_cli.session import NamedArguments, Session


def status(session: Session, names: NamedArguments = None) -> int:
    """Show where each poller stands: cursor, lag, rows pending, lease, bound; and beneath it its backfills that are not
    finished. Changes nothing.

    A backfill's own name shows all of it, finished or not; the name of one in parts, each of its parts.

    Example: poller status orders --json
    """
    from poller_cli.output.models import as_json
    from poller_cli.output.status_report import screens
    from poller_cli.survey import survey
    from poller_cli.terminal.printing import complain, print_json

    with session.app() as app:
        pollers, documents = app.several(names)
        surveyed = survey(app, pollers, documents)
    output = surveyed.output()
    if session.json:
        print_json(as_json(output))
    else:
        print("\n\n".join(screens(output, {one.name for one in documents}, session)))
    for line in surveyed.messages:
        complain(line)
    if output.backfills_unread:
        complain(
            f"{output.backfills_unread:,} documents more may be of backfills and were not looked at; "
            "poller status NAME shows any of them."
        )
    return surveyed.code
