"""`poller health`: whether pollers are healthy, computed by whoever asks. Changes no poller; what the next look needs
is kept in `health/{app_name}.json`."""

from __future__ import annotations

from poller_cli import exits
from poller_cli.session import NamesArgument, Session


def health(session: Session, names: NamesArgument = None) -> int:
    """Say whether pollers are healthy, worst first: for alerts, also where every timer is frozen and every worker dead.

    Unhealthy: rows are later than max_lag, or than 5 minutes and lease_ttl with nothing committed; halted; no room for
    more rows that failed; store or database out of reach; a checkpoint of another source. A pause, the pause after a
    failed call, and rows above an open transaction are only shown.

    Exits 0 where all are healthy, 1 where one is not, 2 where the configuration is wrong. Not for a liveness probe,
    which would kill a worker for the rows that it catches up with.

    Example: poller health orders --json
    """
    from poller_cli.output.health_report import lines
    from poller_cli.terminal.printing import print_json

    with session.app() as app:
        looked = app.health(names)
    if session.json:
        print_json(looked)
    else:
        print("\n".join(lines(looked)))
    return exits.of_health(looked)
