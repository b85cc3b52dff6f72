"""The shop whose console docs/cli.md shows: seven pollers at one moment, made of the models that commands print."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from poller.admin.doctor import Checked
from poller.admin.failing import FailingOutput
from poller.admin.status import ControlOutput, LeaseOutput, PollerStatus
from poller.backfill.survey import Survey
from poller.backfill.watch import WatchedPoller, WatchOutput
from poller.errors import SourceUnavailable
from poller.model.conditions import view
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError
from poller.model.finding import Finding, ok, warn
from poller.model.view import PollerFacts, PollerLimits
from poller.tick.result import BoundOutput
from poller_cli.output.sparkline import History

NOW = datetime(2026, 4, 7, 9, 41, 17, tzinfo=UTC)
APP = "shop"
NAMES = ("orders", "invoices", "shipments", "customers", "returns", "ledger", "inventory-of-the-warehouse-north")
LOOKS = 60
"""Samples behind the lines of bars."""


def _ago(**units: float) -> datetime:
    return NOW - timedelta(**units)


def _cursor(key: int, **units: float) -> Cursor:
    return Cursor(kind="timestamp+pk", value=f"{_ago(**units):%Y-%m-%d %H:%M:%S}", tiebreaker={"id": key})


def _status(name: str, *, committed: datetime, cursor: Cursor, of: dict[str, Any], **facts: Any) -> PollerStatus:
    """`of`: what its picture is made of."""
    usual: dict[str, Any] = {
        "exists": True,
        "paused": False,
        "halted": False,
        "cursor": cursor,
        "checkpoint_updated_at": committed,
        "committed_at": committed,
        "last_successful_batch_id": "batch_20260407_094000_0001",
        "lease": LeaseOutput(fencing_token=41, live=False),
        "lag_seconds": 0.0,
        "pending": 0,
        "bound": BoundOutput(kind="exact", value=f"{NOW:%Y-%m-%d %H:%M:%S.%f}", age_seconds=0.4),
        "attempts": 0,
    }
    document = f"blob state/{APP}/{name}.json in container db-state of https://shopstate.blob.core.windows.net"
    shown = usual | facts
    status = PollerStatus(name=name, app_name=APP, document=document, **shown)
    status._seen_at = NOW
    waits = {"readable": bool(shown["pending"]), "pending": shown["pending"] or 0, "age": shown["lag_seconds"]}
    found = PollerFacts(name=name, now=NOW, committed_at=committed, **waits | of)
    return status.pictured(view(found, PollerLimits()))


def _worker(owner: str, token: int, **since: float) -> LeaseOutput:
    return LeaseOutput(
        owner_id=f"{APP}/{owner}",
        fencing_token=token,
        live=True,
        expires_in_seconds=52.0,
        acquired_at=_ago(**since),
        heartbeat_at=_ago(seconds=8),
        heartbeat_age_seconds=8.0,
    )


def statuses() -> list[PollerStatus]:
    """Where each stands."""
    row = _cursor(80_217, minutes=22)
    retry_at = NOW + timedelta(seconds=94)
    away = SourceUnavailable("The database ledger at db2.shop.example did not answer within 30 s.")
    at_work = {"worker": f"{APP}/web-7c9f-20/0af482db", "lease_live": True, "lease_since": _ago(minutes=12)}
    error = {"error_type": "ValueError", "error_text": "invoice 80217 has no customer", "row": "id=80217"}
    paused = {"paused": True, "by": "ada", "why": "the warehouse moves", "at": _ago(hours=2)}
    return [
        _status(
            "orders",
            committed=_ago(seconds=2),
            cursor=_cursor(1_204_311, seconds=14),
            of={**at_work, "heartbeat_age": 8.0, "expires_in": 52.0},
            lease=_worker("web-7c9f-20/0af482db", 318, minutes=12),
            pending=1_204,
            lag_seconds=14.0,
        ),
        _status(
            "invoices",
            committed=_ago(minutes=22),
            cursor=_cursor(80_216, minutes=22),
            of={"failures": 6, "retry_at": retry_at, **error, "row_key": ("id=80217",)},
            pending=96,
            lag_seconds=1_320.0,
            last_error=DeliveryError(type="ValueError", message="invoice 80217 has no customer"),
            failing=FailingOutput(failures=6, retry_at=retry_at, row=row),
        ),
        _status("shipments", committed=_ago(seconds=41), cursor=_cursor(40_077, seconds=45), of={}),
        _status("customers", committed=_ago(minutes=7), cursor=_cursor(9_311, minutes=7), of={}),
        _status(
            "returns",
            committed=_ago(hours=2, minutes=5),
            cursor=_cursor(771, hours=2),
            of=paused,
            paused=True,
            control=ControlOutput(by="ada", reason="the warehouse moves", at=_ago(hours=2)),
            pending=38,
            lag_seconds=7_180.0,
        ),
        _status(
            "ledger",
            committed=_ago(minutes=3),
            cursor=_cursor(5, minutes=3),
            of={"source": "away", "trouble": away.message},
            pending=None,
            bound=None,
        ).failed(away),
        _status(
            "inventory-of-the-warehouse-north", committed=_ago(seconds=9), cursor=_cursor(66_120, seconds=12), of={}
        ),
    ]


def survey(names: Sequence[str] | None) -> Survey:
    """As `poller status` finds it."""
    return Survey(pollers=[one for one in statuses() if not names or one.name in names], backfills=[])


def watched() -> tuple[WatchOutput, dict[str, History]]:
    """As `poller watch` has it on its screen after two minutes, of three pollers."""
    shown = [one for one in statuses() if one.name in ("orders", "invoices", "shipments")]
    rates = {"orders": 412.0, "shipments": 0.0, "invoices": 0.0}
    histories: dict[str, History] = {}
    for one in shown:
        history = histories[one.name] = History()
        for n in range(LOOKS):
            wave = (n * 37 % 23) / 23
            busy = {"orders": 300 + 240 * wave, "shipments": 90.0 * (n % 20 < 4), "invoices": 120.0 * (n < 12)}
            late = {
                "orders": 60 - n * 0.75 + 6 * wave,
                "shipments": 6.0 * (n % 20 < 4),
                "invoices": max(0.0, n - 12) * 22,
            }
            history.rates.append(busy[one.name])
            history.lags.append(late[one.name])
    pollers = [WatchedPoller(status=one, rows_per_second=rates[one.name]) for one in shown]
    return WatchOutput(at=NOW, pollers=pollers, backfills=[]), histories


_PASSED = (
    *("handler", "schedule", "lease", "storage", "state", "identity", "database", "privileges", "key", "columns"),
    *("nulls", "plan", "round_trip", "time_zone", "updates", "clock", "future", "bound", "clocks"),
)
_INDEX = warn(
    "index",
    "No index begins with (updated_at, id): every page reads and sorts the whole table.",
    "CREATE INDEX CONCURRENTLY invoices_updated_at_id ON shop.invoices (updated_at, id);",
)


def checked(names: Sequence[str] | None) -> list[Checked]:
    """As `poller check` finds it."""
    found = []
    for name in NAMES:
        findings = [ok(one, "all is well") for one in _PASSED]
        if name == "invoices":
            findings.append(_INDEX)
        if name == "ledger":
            message = "The database ledger at db2.shop.example did not answer within 30 s."
            where = "Check that it runs, and that this machine reaches it: db2.shop.example:5432."
            findings = [*findings[:6], Finding("database", "error", message, where)]
        found.append(Checked(name, findings))
    return [one for one in found if not names or one.name in names]
