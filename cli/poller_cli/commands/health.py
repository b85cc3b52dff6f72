"""`poller health`: whether pollers are healthy, computed by the process that asks. Changes no poller."""

from __future__ import annotations

from typing import Annotated

import typer

from poller_cli import exits
from poller_cli.session import NamesArgument, Session


def health(
    session: Session,
    names: NamesArgument = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 for warnings too.")] = False,
) -> int:
    """Say whether pollers are healthy, worst first: for alerts, also if every timer is frozen and every worker is dead.

    Exits 0 if no poller is unhealthy, 1 if one is, 2 if the configuration is wrong. Not for a liveness probe, which
    would kill a worker for the rows that it catches up with.

    Example: poller health orders --json

    Unhealthy: rows wait for longer than max_lag, or than 5 minutes and lease_ttl without progress; a call that keeps
    failing for as long; a halt; a full quarantine; a store or database that cannot be reached; a checkpoint of another
    source. A pause, a first failure and rows above an open transaction are warnings.
    """
    from poller_cli.output.health_report import lines

    with session.app() as app:
        looked = app.health(names)
    session.show(looked, lambda: "\n".join(lines(looked)))
    return exits.of_health(looked, strict=strict)
