"""Events in words, for people at a terminal. Programs have them as JSON, files as `name key=value`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from poller.admin.counts import rows
from poller.model.transitions import times
from poller.model.when import span, took
from poller.observability import PollerEvent

_Fields = Mapping[str, Any]


def _by(fields: _Fields) -> str:
    return str(fields.get("previous_owner_id") or "an unknown owner")


def _bound(fields: _Fields) -> str:
    held = f", held by {fields['held_by']}" if fields.get("held_by") else ""
    why = f": {fields['reason']}" if fields.get("reason") else ""
    return f"rows wait above the {fields['kind']} bound{held}{why}"


def _handler_failed(fields: _Fields) -> str:
    batch, key, error = fields["batch_id"], fields.get("key"), str(fields["error"])
    rows_named = f", which named {rows(fields['failed'])}" if fields.get("failed") else ""
    row = f"row {key}: " if key and str(key) not in error else ""
    return f"the handler failed on {batch}{rows_named}, attempt {fields['attempt']}: {row}{error}"


def _row(fields: _Fields) -> str:
    return f"row {fields['row']}" + (f" ({fields['key']})" if fields.get("key") else "")


def _set_aside(fields: _Fields) -> str:
    if fields["behind"]:
        return f"{_row(fields)} waits behind an earlier row of its ordering key"
    return f"{_row(fields)} was set aside, and is retried automatically{_error(fields)}"


def _error(fields: _Fields) -> str:
    return f": {fields['error']}" if fields.get("error") else ""


def _of_record(fields: _Fields) -> str:
    return f" ({fields['record']})" if fields.get("record") else ""


def _began(fields: _Fields) -> str:
    start = f", as configured ({fields['start_from']})" if fields.get("start_from") else ""
    return f"no state document and no trace of one: it begins at {fields['cursor'] or 'the beginning'}{start}"


def _gap(fields: _Fields) -> str:
    where = "changes" if fields.get("change") is None else f"change {fields['change']}"
    return f"the poller stops before {where}: {fields['reason']}"


_WORDS: Mapping[str, Callable[[_Fields], str]] = {
    "began": _began,
    "capture_gap": _gap,
    "lease_acquired": lambda f: f"lease acquired, fencing token {f['fencing_token']}",
    "lease_taken_over": lambda f: f"lease taken over from {_by(f)}, which let it expire",
    "lease_expired": lambda f: f"the lease of {_by(f)} had expired, and was freed",
    "lease_renewed": lambda _: "lease renewed",
    "lease_released": lambda _: "lease released",
    "lease_lost": lambda f: f"lease lost ({f['reason']})",
    "stale_commit_refused": lambda f: f"commit of {f['batch_id']} refused ({f['reason']}): the lease was over",
    "commit_unknown": lambda f: f"no answer to the commit of {f['batch_id']}: the next tick reads what was stored",
    "write_resent": lambda f: f"a write brought no usable answer and is sent again ({f['error']})",
    "write_resolved": lambda _: "a write whose answer was lost had been applied",
    "write_redone": lambda _: "an operator changed the state document meanwhile; the write was made again on top",
    "yielded_to_operator": lambda _: "no write for a moment, so that an operator's change gets through",
    "fingerprint_bound": lambda _: "a state document without a fingerprint now belongs to the configured source",
    "batch_started": lambda f: f"{f['batch_id']} started: {rows(f['rows'])}, attempt {f['attempt']}",
    "batch_committed": lambda f: f"{f['batch_id']} committed: {rows(f['rows'])} in {took(f['handler_seconds'])}",
    "handler_failed": _handler_failed,
    "row_set_aside": _set_aside,
    "row_delivered_later": lambda f: f"{_row(f)}, which had been set aside, was delivered",
    "row_quarantined": lambda f: f"{_row(f)} failed {times(f['failures'])} and waits for a person{_error(f)}",
    "handler_timed_out": lambda f: f"the handler has run for {span(f['seconds'])} with {f['batch_id']}: its lease ends",
    "query_timed_out": lambda f: f"the query for the next rows has run for {span(f['seconds'])}: its lease ends",
    "halted": lambda f: f"halted: {f['reason']}",
    "audit_failed": lambda f: f"a record of the audit trail was not written: {f['error']}{_of_record(f)}",
    "rechecked": lambda f: f"{rows(f['compared'])} compared with what was delivered, {f['late']:,} late",
    "late_rows": lambda f: f"{rows(f['rows'])} below the cursor were never delivered: {'; '.join(f['examples'])}",
    "bound_held": _bound,
    "clock_went_back": lambda f: f"the database's clock went back: {f['reason'] or f['clock'] or 'no reason given'}",
    "two_apps": lambda f: str(f["error"]),
    "facts_taken": lambda _: "the checkpoint rests on the table as it is now: what it rested on was not stored",
    "tie_repeated": lambda f: f"{f['reason']}: rows are delivered again from {f['cursor']} on",
    "table_replaced": lambda f: f"{f['reason']}: rows are delivered again from {f['cursor']} on",
    "pruned": lambda f: f"{rows(f['rows'])} of {f['table']} deleted, up to {f['through']}",
    "prune_failed": lambda f: f"its table was not pruned, which is tried again in an hour: {f['error']}",
    "table_large": lambda f: f"{f['table']} has {f['bytes']:,} bytes, more than its limit of {f['warn_size']:,}",
    "server_below_checkpoint": lambda f: f"the database is below the checkpoint: {f['reason'] or 'no reason given'}",
}


def words(event: PollerEvent) -> str:
    """What happened, as a sentence would say it; an event without words of its own by its name and fields."""
    fields = event.as_json()
    said = _WORDS.get(event.name)
    if said is not None:
        return said(fields)
    kept = {key: value for key, value in fields.items() if key not in ("event", "poller", "at", "owner_id")}
    facts = (f"{key.replace('_', ' ')} {value}" for key, value in kept.items() if value is not None)
    return ", ".join([event.name.replace("_", " "), *facts])
