"""What `poller quarantine` shows people: which rows wait and why, and one of them with its content."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from poller.admin.change_result import SHOWN, WAITS, key_text
from poller.admin.counts import rows as rows_of
from poller.model.escape import cut
from poller.model.transitions import times
from poller.model.when import moment
from poller_cli import exits
from poller_cli.terminal.layout import fitted
from poller_cli.terminal.printing import coloured, folded, printable

if TYPE_CHECKING:
    from poller.admin.quarantine.listing import (
        ActOutput,
        ContentOutput,
        QuarantineOutput,
        QuarantineShowOutput,
        WaitingRowOutput,
    )
    from poller.admin.quarantine.replay import QuarantineReplayOutput
    from poller_cli.session import Session


def listed(output: QuarantineOutput, session: Session) -> str:
    """The rows by what they wait for, and what to do next."""
    if not output.aside and not output.pending:
        return fitted("\n".join([f"{output.name}: no row waits.", *_unlisted(output, session)]), sys.stdout)
    full = "" if output.room > 0 else ", and no other may wait (max_quarantined)"
    groups = ((WAITS["aside"], "yellow", output.aside), (WAITS["pending"], "red", output.pending))
    counts = [f"{rows_of(len(rows))} {where}" for where, _, rows in groups if rows]
    lines = [f"{output.name}: {', '.join(counts)}{full}"]
    for where, colour, rows in groups:
        if rows:
            lines.append(f"{coloured(where, colour, sys.stdout)}")
            lines += [line for row in rows for line in _block(row)]
    first = (output.pending or output.aside)[0]
    lines.append(f"Look at one: {session.command('quarantine', 'show', output.name, '--id', first.id)}")
    return fitted("\n".join([*lines, *_unlisted(output, session)]), sys.stdout)


def _unlisted(output: QuarantineOutput, session: Session) -> list[str]:
    """About records of rows that wait no longer, and do not say so."""
    ids = output.unlisted
    if not ids:
        return []
    many = f"{len(ids):,} more record{'s say' if len(ids) > 1 else ' says'} of a row that it waits, and it does not"
    why = "who delivered it or gave it up was killed before its record said so, or a worker lost its lease"
    return [
        f"{many}: {why}. It holds nothing up.",
        f"Look at it: {session.command('quarantine', 'show', output.name, '--id', ids[0])}",
        f"Settle its record: {session.command('quarantine', 'discard', output.name, '--id', ids[0])}",
    ]


def shown(output: QuarantineShowOutput, session: Session) -> str:
    """One row: where it stands, what happened to it, and its columns."""
    row, record = output.waits, output.record
    lines: list[str] = []
    if row is not None:
        lines += _block(row)
    if record is not None:
        lines += _lines([*(_settled(record) if row is None else []), *_history(record)])
        lines += _lines([("record", output.document)])
        lines.append("row")
        lines += _lines([(name, _value(value)) for name, value in record.row.items()], width=20)
    if row is not None:
        lines += _next(output.name, row, session)
    return fitted("\n".join(lines), sys.stdout)


def _next(name: str, row: WaitingRowOutput, session: Session) -> list[str]:
    """What a person can do about a row that waits, with commands that are not refused."""
    if not row.passed:
        return ["It can be handed over or given up once the checkpoint has passed it."]

    def replay(*words: str) -> str:
        return session.command("quarantine", "replay", name, *words)

    this = ("--id", row.id)
    key = [part for column, value in (row.ordering_key or {}).items() for part in ("--key", f"{column}={_text(value)}")]
    if not row.current:
        lines = [f"Hand it over as recorded: {replay(*this, '--recorded')}"] if row.problem is None else []
        lines.append(f"Hand it over as the table has it now: {replay(*this, '--current')}")
    elif row.problem is not None:
        lines = [f"Hand it over as the table has it now: {replay(*this, '--current')}"]
    elif key and row.ordering_key != row.pk:
        lines = [f"Hand over all that wait of its ordering key, the oldest first: {replay(*key)}"]
    else:
        lines = [f"Hand it over again: {replay(*this)}"]
    return [*lines, f"Give it up: {session.command('quarantine', 'discard', name, *this)}"]


def _text(value: object) -> str:
    """As `--key` takes it."""
    return "" if value is None else str(value)


def to_replay(output: QuarantineReplayOutput) -> str:
    """Which rows would be handed over, before it is agreed to."""
    version = {"recorded": "as recorded", "current": "as the table has them now", "as-it-was": "as they were"}
    lines = [f"quarantine replay {output.name}: {rows_of(len(output.rows))}, {version[output.version]}"]
    lines += _lines([("row", f"{row.id}  {key_text(row.pk)}") for row in output.rows[:SHOWN]])
    more = len(output.rows) - SHOWN
    return fitted("\n".join([*lines, *([f"  and {more:,} more"] if more > 0 else [])]), sys.stdout)


def replayed(output: QuarantineReplayOutput) -> str:
    """What became of each row."""
    if output.dry_run and output.rows:
        return f"{to_replay(output)}\nA dry run: nothing was handed over."
    if not output.rows:
        return f"{output.name}: no such row waits; nothing was handed over."
    lines = [f"{output.name}: {output.replayed:,} of {rows_of(len(output.rows))} replayed"]
    for row in output.rows:
        why = f": {row.error}" if row.error else ""
        lines += _lines([(row.outcome.replace("_", " "), f"{row.id}  {key_text(row.pk)}{why}")])
    if output.stopped:
        lines += _lines([("stopped", output.stopped)])
    return fitted("\n".join(lines), sys.stdout)


def code_of(output: QuarantineReplayOutput) -> int:
    """The code for a replay: 1 where a row failed, 3 where one was not handed over."""
    if output.dry_run:
        return exits.DONE
    codes = {"replayed": exits.DONE, "failed": exits.FAILED, "refused": exits.REFUSED, "not_tried": exits.REFUSED}
    return exits.worst(codes[row.outcome] for row in output.rows)


def _block(row: WaitingRowOutput) -> list[str]:
    """One row, without its content."""
    lines = [("row", f"{row.id}  {key_text(row.pk)}"), ("cursor", str(row.cursor))]
    if row.ordering_key is not None and row.ordering_key != row.pk:
        lines.append(("key", key_text(row.ordering_key)))
    lines.append(("state", _state(row)))
    if row.error is not None:
        lines.append(("error", f"{row.error.type}{': ' + row.error.message if row.error.message else ''}"))
    if row.problem is not None:
        lines.append(("record", row.problem))
    return _lines(lines)


def _state(row: WaitingRowOutput) -> str:
    since = f" since {moment(row.since)}" if row.since else ""
    words = [f"{WAITS[row.status]}{since}"]
    if row.behind:
        words.append("behind an earlier row of its ordering key")
    if row.failures:
        strikes = f", {row.strikes} strike{'s' * (row.strikes > 1)}" if row.strikes else ""
        words.append(f"failed {times(row.failures)}{strikes}")
    if not row.passed:
        words.append("not tried before the checkpoint has passed it")
    elif row.status == "aside" and not row.behind:
        words.append("next try " + (f"from {moment(row.retry_at)}" if row.retry_at else "at once"))
    if not row.current:
        words.append("from before the last reset")
    return ", ".join(words)


def _settled(record: ContentOutput) -> list[tuple[str, str]]:
    """Of one that waits no longer."""
    settled = record.settled
    if settled is None:
        return [("state", f"waits no longer; its record still says {record.status}")]
    return [("state", f"{record.status} {_act(settled)}")]


def _history(record: ContentOutput) -> list[tuple[str, str]]:
    lines = [("opened", f"{_act(record.opened)}, token {record.fencing_token}, batch {record.batch_id or 'none'}")]
    if record.openings:
        lines.append(("before", f"it was set aside {times(record.openings)} before"))
    return lines


def _act(act: ActOutput) -> str:
    at = f" at {moment(act.at)}" if act.at else ""
    why = f": {act.reason}" if act.reason else ""
    return f"by {act.by or 'the poller'}{at}{why}"


def _value(value: Any) -> str:
    return "NULL" if value is None else str(value)


def _lines(parts: Sequence[tuple[str, str]], *, width: int = 9) -> list[str]:
    """What a row or an error holds must not steer the terminal."""
    texts = [printable(f"{name:<{width}} {cut(text, 5_000)}", indent="  ") for name, text in parts]
    return [folded(text, hang=width + 3, stream=sys.stdout) for text in texts]
