"""The doctor: what a poller stands on, looked at before it goes wrong. Changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from poller import once
from poller.admin.editor import Operator
from poller.admin.look import look
from poller.admin.side_by_side import Inquiry
from poller.admin.status import PollerStatus
from poller.admin.wired import WiredPoller, database_of, gives_sign_of_life, operator_of
from poller.config.relays import relay_name
from poller.errors import (
    ConfigError,
    FingerprintMismatch,
    PollerError,
    SourceError,
    SourceUnavailable,
    StateCorrupt,
    StoreDenied,
    StoreError,
    WriteConflict,
)
from poller.lease.state_file import Copy
from poller.model.durations import format_duration
from poller.model.finding import Finding, error, ok, warn
from poller.model.memory import PollerMemory
from poller.model.schedule import Schedule
from poller.model.when import moment, span, took
from poller.ports import InspectableSource
from poller.relays.base import Relay
from poller.tick.ordering import check_ordering_key
from poller.tick.preflight import check_fingerprint

CLOCKS_APART = 5.0
"""Seconds by which two clocks may differ without a warning; storage gives its time to the second."""
NO_SUCH_TAG = '"0x0"'
"""No version of any document has it: a write on this condition proves the permission and never lands."""
FINGERPRINT = "fingerprint"
"""The check of a finding which says that the checkpoint belongs to another source."""
DEFAULT_FUNCTION_TIMEOUT = timedelta(minutes=5)
"""The limit of a Consumption plan, if host.json says nothing."""


@runtime_checkable
class ExaminableStore(Protocol):
    """A store with findings of its own: `BlobStore` has some, and `MemoryStore` ends with its process."""

    def checkup(self, name: str, *, exists: bool = True) -> list[Finding]:
        """`name`: of a document; `exists`: whether there is one."""
        ...


@dataclass(frozen=True, slots=True)
class Checked:
    """One poller's findings; `refused`: why it could not be made at all, which is then its only finding."""

    name: str
    findings: list[Finding]
    refused: PollerError | None = None


class PollerWithHandler(WiredPoller, Protocol):
    """A poller with a handler; `poller.Poller` is one."""

    @property
    def handler(self) -> object:
        """The configured one, which is imported when it is first asked for. Raises: ConfigError."""


def look_into(
    poller: PollerWithHandler,
    folder: Path,
    *,
    table: Callable[[], list[Finding]] = list,
    seen: dict[str, PollerMemory] | None = None,
    beside: str | None = None,
) -> Inquiry[list[Finding]]:
    """Everything about one poller, to be asked beside looks at others; raises then nothing that is a PollerError but
    LeaseHeld.

    Args:
        folder: where `host.json` stands, if there is one.
        table: what else is to be said of its table; asked if no error was found.
        seen, beside: as of `poller.admin.look.look`.
    """

    def ask(silent: SourceUnavailable | None) -> list[Finding]:
        """`silent`: why the database is not asked."""
        with poller.alone():
            found, copy = _examined(poller, folder, silent)
            explained = any(one.severity == "error" for one in found)
            if not explained and silent is None:
                found += table()
            status = look(poller, silent=silent, seen=seen, beside=beside, copy=copy)
            return [*found, _delivery(status, explained=explained)]

    return Inquiry(
        database_of(poller),
        ask=ask,
        unavailable=lambda found: any(one.severity == "error" for one in found),
        lives=lambda: gives_sign_of_life(poller),
    )


def _examined(
    poller: PollerWithHandler, folder: Path, silent: SourceUnavailable | None
) -> tuple[list[Finding], Copy | None]:
    """What its own looks find, and the document, if there is one that can be read."""
    relay, findings = _handler(poller)
    findings += [*_timing(poller), *_host(poller, folder)]
    copy, store_offset = _storage(poller, findings)
    after = None if copy is None else copy.state.checkpoint.cursor
    mismatch = any(one.check == FINGERPRINT for one in findings)
    if silent is not None:
        return (findings if mismatch else [*findings, _of(silent, "database")]), copy
    if not mismatch and isinstance(poller.source, InspectableSource):
        if copy is not None and copy.state.bound is not None:
            poller.source.recall(copy.state.bound)
        poller.source.rests_on(None if copy is None else copy.state.facts)
        checkup = poller.source.checkup(after, poller.runtime.utcnow)
        findings += checkup.findings
        if relay is not None:
            findings += _columns(poller.source, relay)
        if copy is not None:
            findings += _same_table(poller, copy)
        if store_offset is not None and checkup.offset_seconds is not None:
            findings.append(_clocks(store_offset, checkup.offset_seconds))
    return findings, copy


def _of(refused: PollerError, check: str) -> Finding:
    return error(check, refused.message, refused.next_step)


# --- what needs no connection --------------------------------------------------------------------------------------


def _handler(poller: PollerWithHandler) -> tuple[Relay[Any] | None, list[Finding]]:
    """What is said of it; and the relay, if it is one whose target can be used."""
    if poller.options.handler is None:
        return None, [
            warn("handler", "None is configured: poller run and Functions need one.", 'handler = "handlers:handle"')
        ]
    try:
        made = poller.handler
    except PollerError as refused:
        return None, [_of(refused, "handler")]
    if relay_name(poller.options.handler) is None or not isinstance(made, Relay):
        return None, [ok("handler", f"{poller.options.handler} can be imported")]
    found = made.checkup()
    usable = all(one.severity != "error" for one in found)
    return made if usable else None, [ok("handler", f"{poller.options.handler} can be used"), *found]


def _columns(source: InspectableSource, relay: Relay[Any]) -> list[Finding]:
    """What the relay says of the columns of a row, if there is one."""
    try:
        rows = source.span(None, None, 1).rows
    except PollerError:
        return []  # the source's own findings say it
    return relay.check_columns(tuple(rows[0])) if rows else []


def _timing(poller: WiredPoller) -> list[Finding]:
    o, timing = poller.options, poller.options.timing
    now, moments = poller.runtime.utcnow(), []
    for _ in range(3):
        now = Schedule(o.schedule).next_after(now)
        moments.append(moment(now))
    found = [ok("schedule", f"{o.schedule}: next at {', '.join(moments)}")]
    takeover = f"another worker takes over {took(timing.ttl + timing.margin)} after one was killed"
    if timing.ttl < 10:
        found.append(
            warn(
                "lease",
                f"lease_ttl is {timing.ttl:g} s: a short stall of storage loses the lease.",
                'lease_ttl = "60s"',
            )
        )
    elif timing.ttl > 900:
        found.append(warn("lease", f"lease_ttl is {timing.ttl:g} s: {takeover}.", 'lease_ttl = "60s"'))
    else:
        found.append(ok("lease", f"lease_ttl {format_duration(o.lease_ttl)}: {takeover}"))
    return found


def _host(poller: WiredPoller, folder: Path) -> list[Finding]:
    """`host.json` beside `poller.toml`: the host ends an invocation without a word to it."""
    path = folder / "host.json"
    if not path.is_file():
        return []
    try:
        written: Any = json.loads(path.read_text(encoding="utf-8")).get("functionTimeout")
    except (OSError, ValueError, AttributeError):
        return [error("host", "host.json is not a JSON object, so no host would start.", "Fix it.")]
    if written == "-1":
        return [ok("host", "functionTimeout is unlimited")]
    limit, given = DEFAULT_FUNCTION_TIMEOUT, "is not set (5 minutes on a Consumption plan)"
    if written is not None:
        parts = re.fullmatch(r"(?:(\d+)\.)?(\d+):(\d+):(\d+)", str(written))
        if parts is None:
            return [error("host", f"functionTimeout in host.json is {written!r}.", '"functionTimeout": "00:05:00"')]
        days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
        limit, given = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds), f"is {written}"
    tick = poller.options.tick_timeout
    if tick < limit:
        return [ok("host", f"tick_timeout {format_duration(tick)} is below functionTimeout, which {given}")]
    return [
        error(
            "host",
            f"tick_timeout is {format_duration(tick)}, and functionTimeout in host.json {given}: the host ends the"
            " worker in the middle of a batch.",
            f'tick_timeout = "{format_duration(limit * 9 / 10)}"',
        )
    ]


# --- storage -------------------------------------------------------------------------------------------------------


def _storage(poller: WiredPoller, findings: list[Finding]) -> tuple[Copy | None, float | None]:
    """The document, if it is there and readable, and how far the store's clock is ahead of ours."""
    operator = operator_of(poller, "check")
    try:
        copy = operator.file.read()
    except StateCorrupt as refused:
        findings.append(_of(refused, "state"))
        return None, None
    except StoreError as refused:
        findings.append(_of(refused, "storage"))
        return None, None
    offset = (operator.file.clock.now() - poller.runtime.utcnow()).total_seconds()
    findings += _writable(poller, operator)
    if isinstance(poller.store, ExaminableStore):
        try:
            findings += poller.store.checkup(operator.file.name, exists=copy is not None)
        except StoreError as refused:
            findings.append(_of(refused, "container"))
    findings += _state(poller, operator, copy, findings)
    return copy, offset


def _writable(poller: WiredPoller, operator: Operator) -> list[Finding]:
    """A conditional write that cannot land: the answer shows whether it would have been permitted, and nothing is
    left behind."""
    where = poller.store.locate(operator.file.name)
    key = poller.store, poller.app_name, "writable"
    try:
        written = once.ask(key, lambda: _is_written(poller), keep=lambda written: not written)
    except StoreDenied as refused:
        return [error("storage", f"Reading is permitted, writing is not. {refused.message}", refused.next_step)]
    except StoreError as refused:
        return [_of(refused, "storage")]
    if not written:
        return [ok("storage", f"{where}: reading and conditional writing are permitted")]
    return [error("storage", f"{where}: a write with a false condition was applied.", "Use another store.")]


def _is_written(poller: WiredPoller) -> bool:
    """True if a write whose condition is false is applied. Raises: StoreError, if none is permitted."""
    name = f"control/{poller.app_name}/{poller.name}.check"
    try:
        poller.store.write(name, b"{}", if_tag=NO_SUCH_TAG)
    except WriteConflict:
        return False
    return True


def _state(poller: WiredPoller, operator: Operator, copy: Copy | None, findings: list[Finding]) -> list[Finding]:
    if copy is None:
        try:
            copy = operator.file.read_unless_deleted()
        except StoreDenied as refused:
            listed = any(f.check == "listing" and f.severity == "error" for f in findings)
            return [] if listed else [_of(refused, "listing")]
        except StoreError as refused:
            return [_of(refused, "state")]
    if copy is None:
        return [ok("state", "no document yet: the first tick creates it, where start_from says")]
    try:
        check_fingerprint(poller.name, copy.state, poller.source)
        check_ordering_key(poller.name, copy.state, poller.source, poller.options.ordering_key)
    except FingerprintMismatch as mismatch:
        return [_of(mismatch, FINGERPRINT)]
    except SourceError:
        pass  # the looks at the source say it
    except ConfigError as other_key:
        return [_of(other_key, "ordering")]
    return [ok("state", f"readable; the checkpoint is at {copy.state.checkpoint.cursor or 'the beginning'}")]


_LOOKED_INTO = frozenset(
    {
        *("misconfigured", "store_away", "unreadable", "other_source", "source_away", "source_unreadable"),
        *("source_behind", "unread"),
    }
)
"""Conditions whose cause other findings name."""


def _delivery(status: PollerStatus, *, explained: bool) -> Finding:
    """What `poller status` says of it, as a finding. `explained`: another finding is an error."""
    said = [one for one in status.conditions if one.severity != "well"] or status.conditions[:1]
    more = [one for one in said if not (explained and one.name in _LOOKED_INTO)]
    text = " ".join(f"{one.sentence} {one.detail}" if one.detail and one in more else one.sentence for one in said)
    step = next((step for one in more if (step := one.do or one.next_step)), "")
    if status.severity == "well":
        return ok("delivery", text)
    return (error if status.severity == "unhealthy" else warn)("delivery", text, step)


def _same_table(poller: WiredPoller, copy: Copy) -> list[Finding]:
    """Once the server was asked: what the configuration leaves to it, and whether the table was made again."""
    try:
        check_fingerprint(poller.name, copy.state, poller.source)
    except FingerprintMismatch as mismatch:
        return [_of(mismatch, FINGERPRINT)]
    except SourceError:
        return []  # the looks at the source say it
    source, before = poller.source, (copy.state.facts or {}).get("object")
    now = (source.facts() or {}).get("object")
    if not before or now is None or before == now:
        return []
    return [
        warn(
            "table",
            f"{source.describe().table} is not the table that the last batch came from ({before}, now {now}): it was"
            " dropped and made again, restored from a dump, or rebuilt. Rows in it that lie below the checkpoint are"
            " never read.",
            f"If its rows are others: poller reset-to-beginning {poller.name}. The next batch ends this warning.",
        )
    ]


def _clocks(store: float, database: float) -> Finding:
    apart = database - store
    if abs(apart) <= CLOCKS_APART:
        return ok("clocks", f"database, store and this machine agree to {span(CLOCKS_APART)}")
    ahead = "ahead of" if apart > 0 else "behind"
    return warn(
        "clocks",
        f"The database's clock is {span(abs(apart))} {ahead} the store's: leases do not mind, but times in logs and"
        " documents cannot be compared.",
        "Synchronise both (NTP).",
    )
