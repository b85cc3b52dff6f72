"""`poller status`: is it working, how far behind, who holds it, what is it waiting for. Reads only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from poller_cli import exits
from poller_cli.session import NamesArgument, Session

if TYPE_CHECKING:
    from poller_cli.outputs import PollerStatus


def status(session: Session, names: NamesArgument = None) -> int:
    """Show where each poller stands: cursor, lag, rows pending, lease, bound. Changes nothing.

    Example: poller status orders --json
    """
    from poller_cli.outputs import StatusOutput, as_json
    from poller_cli.survey import survey
    from poller_cli.terminal import complain, print_json

    with session.app() as app:
        chosen = list(dict.fromkeys(app.known(name) for name in names)) if names else list(app.pollers)
        surveyed = survey([app.poller(name) for name in chosen])
    if session.json:
        print_json(as_json(StatusOutput(pollers=[one.status for one in surveyed])))
    else:
        print("\n\n".join(_screen(one.status) for one in surveyed))
    for one in surveyed:
        if one.status.error is not None:
            complain(f"{one.status.name}: {one.status.error}")
    return exits.worst(one.code for one in surveyed)


def _screen(status: PollerStatus) -> str:
    from poller_cli.terminal import coloured, printable

    word, colour = state_word(status)
    lines = [f"{status.name}  {coloured(word, colour, sys.stdout)}"]
    saved = f", saved {status.checkpoint_updated_at:%Y-%m-%d %H:%M:%S}Z" if status.checkpoint_updated_at else ""
    lines.append(f"  cursor    {status.cursor or 'the beginning'}{saved}")
    if status.pending is not None:
        count = f"{status.pending:,}{' or more' if status.pending_capped else ''} rows pending"
        age = (
            f", the oldest {_span(status.lag_seconds)} old" if status.pending and status.lag_seconds is not None else ""
        )
        lines.append(f"  behind    {count}{age}")
    lines.append(f"  lease     {_lease(status)}")
    if status.bound is not None:
        lines.append(f"  bound     {_bound(status)}")
    if status.attempts or status.last_error is not None:
        error = status.last_error
        told = f", last error {error.type}{': ' + error.message if error.message else ''}" if error else ""
        lines.append(f"  attempts  {status.attempts} on the pending batch{told}")
    if status.control.by or status.control.reason:
        at = f" at {status.control.at:%Y-%m-%d %H:%M:%S}Z" if status.control.at else ""
        lines.append(
            f"  stopped   by {status.control.by or 'unknown'}{at}: {status.control.reason or 'no reason given'}"
        )
    lines.append(f"  state     {status.document}")
    # What a row or an error holds must not steer the terminal.
    return "\n".join([lines[0], *(printable(line, indent="  ") for line in lines[1:])])


def state_word(status: PollerStatus) -> tuple[str, str]:
    """One word for the whole, and its colour."""
    if status.error is not None:
        return "not known in full", "red"
    if status.halted:
        return "halted", "red"
    if status.paused:
        return "paused", "yellow"
    if not status.exists:
        return "never ran", "dim"
    if status.lease.live:
        return "working", "green"
    if status.last_error is not None and status.attempts:
        return "failing", "red"
    return ("behind", "yellow") if status.pending else ("idle", "green")


def _lease(status: PollerStatus) -> str:
    lease = status.lease
    if lease.owner_id is None:
        return f"free, fencing token {lease.fencing_token}"
    if not lease.live:
        return f"expired, last held by {lease.owner_id}, fencing token {lease.fencing_token}"
    left = f", expires in {_span(lease.expires_in_seconds)}" if lease.expires_in_seconds is not None else ""
    return f"{lease.owner_id}, fencing token {lease.fencing_token}{left}"


def _bound(status: PollerStatus) -> str:
    bound = status.bound
    if bound is None:
        return ""
    parts = [bound.kind]
    if bound.age_seconds is not None:
        parts.append(f"{_span(bound.age_seconds)} behind the database's clock")
    if bound.held_by:
        parts.append(f"held by {bound.held_by}")
    if bound.reason:
        parts.append(bound.reason)
    return ", ".join(parts)


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
