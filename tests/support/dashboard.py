"""Eleven pollers for the status page, with documents, records and audit trails in a store: to look at, and to test."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from poller.admin import Health, PollerStatus
from poller.admin.failing import FailingOutput
from poller.admin.health import worst_first
from poller.admin.status import LeaseOutput
from poller.admin.wired import WithoutSource
from poller.config import PollerOptions
from poller.http import Endpoints, Hosts, Keys
from poller.http.looks import SharedLook
from poller.http.page.detail_looks import DetailLooks
from poller.http.page.details import DetailReader
from poller.http.shown import shown_health
from poller.model.conditions import view
from poller.model.document import DeliveryError
from poller.model.view import PollerFacts, PollerLimits
from poller.stores import MemoryStore
from poller.tick import BoundOutput
from tests.support.quarantine import Clock, entry, quarantine

NOW = datetime(2026, 11, 23, 13, 42, 17, tzinfo=UTC)
HOSTILE = "</svg></style><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J\u202e\u2028\x85'\"&{{7*7}}"
"""What whoever can write the container may put anywhere in it."""
_FIRST, _SECOND = "shop/worker-7f3a91", "shop/worker-c20b4e"
_MINUTE = PollerLimits(following=lambda at: at + timedelta(minutes=1))


class Noon(Clock):
    """It is `NOW` until a test says otherwise."""

    def utcnow(self) -> datetime:
        return NOW + timedelta(seconds=self.passed)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def poller(name: str, limits: PollerLimits = _MINUTE, bound: BoundOutput | None = None, **facts: Any) -> PollerStatus:
    """A poller that committed 40 s ago and has nothing to do, but for these facts."""
    known = PollerFacts(name=name, now=NOW, **{"committed_at": ago(40), **facts})
    read = known.config is None and known.store is None and known.document in {"there", "none"}
    asked = read and known.source is None
    status = PollerStatus(
        name=name,
        app_name="shop",
        document=f"state/shop/{name}.json",
        exists=known.document == "there" if read else None,
        paused=known.paused if read else None,
        halted=known.halted if read else None,
        committed_at=known.committed_at if read else None,
        moved_at=known.moved_at if read else None,
        lease=LeaseOutput(owner_id=known.worker, live=known.worker is not None) if read else LeaseOutput(),
        failing=_failing(known) if read else FailingOutput(),
        pending=known.pending if asked else None,
        pending_capped=known.capped,
        lag_seconds=(known.age or 0.0) if asked else None,
        bound=bound,
    )
    return status.pictured(view(known, limits))


def _failing(known: PollerFacts) -> FailingOutput:
    return FailingOutput(
        failures=known.failures,
        retry_at=known.retry_at,
        aside=known.aside,
        aside_due=known.aside_due,
        quarantined=known.quarantined,
    )


def waits(rows: int, age: float, **facts: Any) -> dict[str, Any]:
    """Facts of a poller with rows that may be read, the oldest of them so many seconds old."""
    return {"readable": True, "pending": rows, "age": age, **facts}


def pollers() -> list[PollerStatus]:
    """Of a shop on a day that is not its best."""
    return [
        poller("customers", **waits(1240, 3.1, committed_at=ago(4), **at_work(2))),
        poller("invoices", **waits(8214, 2477.0, committed_at=ago(2530))),
        poller("inventory", committed_at=ago(9)),
        poller("ledger", source="away", trouble="no answer from db7.example.com", committed_at=ago(320)),
        poller("newsletter", document="none", committed_at=None),
        poller(
            "payments",
            **waits(317, 5210.0, paused=True, by="ana", why="waits for the new payment provider", at=ago(5300)),
            committed_at=ago(5400),
        ),
        poller("prices", committed_at=ago(70_000)),
        poller(
            "refunds",
            **waits(12, 214.0, failures=3, retry_at=NOW + timedelta(seconds=90), error_type="ReadTimeout"),
            attempts=3,
            error_text="Jane Doe's bank did not answer",
            row="id=777",
            row_key=("id=777",),
        ),
        poller("returns", committed_at=ago(3700)),
        poller(
            "shipments",
            bound=BoundOutput(kind="exact", age_seconds=8.5, held_by="transaction 48211 of reporting"),
            **waits(86, 4.2, committed_at=ago(6), aside=1, quarantined=2, **at_work(130)),
        ),
        poller("suppliers", committed_at=ago(12)),
    ]


def at_work(seconds: float, worker: str = _FIRST) -> dict[str, Any]:
    """Facts of a poller whose worker has held its lease for so long."""
    return {"worker": worker, "lease_live": True, "lease_since": ago(seconds), "heartbeat_age": 6.0, "expires_in": 54.0}


def history(owners: Sequence[str] = (_SECOND, _FIRST), gaps: Sequence[int] = (21, 22, 38)) -> list[dict[str, Any]]:
    """Five hours of a poller that rests at times; the second owner takes over in the middle."""
    chance, entries = random.Random(7), []
    begin = NOW.replace(minute=40, second=0) - timedelta(minutes=5 * 59)
    for place in range(60):
        if place in gaps:
            continue
        busy = 1.4 + math.sin(place / 9) + chance.random() / 2 + (1.8 if 40 <= place < 44 else 0)
        rows = int(busy * 5200 * (0.45 if place == 59 else 1))
        batches = rows // 480 + 1
        entries.append(
            {
                "at": iso(begin + timedelta(minutes=5 * place)),
                "rows": rows,
                "batches": batches,
                "handler_seconds": round(
                    (rows // 480 + 1) * (0.35 + chance.random() / 6 + (0.5 if 40 <= place < 44 else 0)), 3
                ),
                "lag_seconds": round(2 + busy * chance.random() * 3 + (24 if 41 <= place < 44 else 0), 2),
                "token": 41 + place // 4,
                "owner": owners[0] if place < 33 else owners[-1],
            }
        )
    return entries


def waiting(number: int, **facts: Any) -> dict[str, Any]:
    """A row as a document lists it."""
    one = entry(number).facts
    row = {"id": one.id, "pk": one.pk, "key": one.key, "cursor": one.cursor.model_dump(mode="json"), "failures": 5}
    return {**row, "since": iso(ago(7200 - 600 * number)), **facts}


def document(name: str, **facts: Any) -> dict[str, Any]:
    """A poller's document, of whom nobody holds the lease, but for these facts."""
    return {
        "version": 1,
        "poller_name": name,
        "source_fingerprint": "sha256:0",
        "checkpoint": {"cursor": None, "updated_at": iso(ago(6))},
        "lease": {"owner_id": None, "fencing_token": 7},
        **facts,
    }


def change(kind: str, minutes: float, by: str = "ana", reason: str | None = None) -> dict[str, Any]:
    """A record of an audit trail."""
    at = iso(ago(60 * minutes))
    return {
        "id": f"{kind}-{minutes}",
        "kind": kind,
        "by": by,
        "at": at,
        "reason": reason,
        "before": None,
        "after": None,
    }


@dataclass
class Shop:
    """Pollers, and what a store says of them."""

    found: Callable[[], list[PollerStatus]] = pollers
    clock: Noon = field(default_factory=Noon)
    looks: int = 0
    environment: str | None = None

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock)

    def put(self, name: str, document: Mapping[str, Any] | bytes) -> None:
        """A poller's document."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.store.write(f"state/shop/{name}.json", body, if_tag=None)

    def audit(self, name: str, *changes: Mapping[str, Any]) -> None:
        """Records of its audit trail, the oldest first."""
        for one in changes:
            self.store.append(f"audit/shop/{name}.jsonl", json.dumps(one))

    def record(self, name: str, number: int, type_: str) -> None:
        """The record of a row that failed, with an error and a row that no page may show."""
        error = DeliveryError(type=type_, message="Jane Doe has no address")
        records = quarantine(self.store, self.clock, poller_name=name)
        records.open(entry(number, {"id": number, "name": "Jane Doe"}, error=error, failures=5), deadline=2000.0)

    def look(self) -> Any:
        self.looks += 1
        return shown_health(self.health(), self.environment)

    def health(self) -> Health:
        return worst_first("shop", self.clock.utcnow(), self.found())

    def endpoints(self, token: str | None = None, *, hosts: Sequence[str] = (), kept: float = 0.0) -> Endpoints:
        """As a server has them."""
        names = [one.name for one in self.found()]
        look = SharedLook(self.look, kept=kept, now=self.clock.monotonic)
        return Endpoints(
            look, names, Keys(token), Hosts(hosts), details=DetailLooks(self.reader, now=self.clock.monotonic)
        )

    def reader(self, name: str) -> DetailReader:
        """What reads the details of a poller."""
        options = PollerOptions()
        wired = WithoutSource(name=name, app_name="shop", store=self.store, options=options, runtime=self.clock)
        return DetailReader(wired)


def busy_shop() -> Shop:
    """One whose poller `shipments` has a history, three rows that failed, and an audit trail."""
    shop = Shop()
    lease = {
        "owner_id": _FIRST,
        "fencing_token": 55,
        "acquired_at": iso(ago(130)),
        "heartbeat_at": iso(ago(6)),
        "expires_at": iso(NOW + timedelta(seconds=54)),
        "ttl_seconds": 60,
    }
    rows = {
        "quarantine": [waiting(1), waiting(2)],
        "aside": [waiting(3, failures=2, retry_at=iso(NOW + timedelta(seconds=75)))],
    }
    shop.put("shipments", document("shipments", lease=lease, history=history(), **rows))
    for number, type_ in ((1, "AddressUnknown"), (2, "AddressUnknown"), (3, "requests.exceptions.ReadTimeout")):
        shop.record("shipments", number, type_)
    shop.audit(
        "shipments",
        change("reset-to-cursor", 26 * 60, "ana", "the carrier lost yesterday's parcels"),
        change("takeover", 122, _FIRST),
        change("pause", 95, "ben", "carrier maintenance"),
        change("resume", 71, "ben"),
        change("quarantine replay", 18, "ana", "address corrected"),
    )
    control = {"paused": True, "by": "ana", "reason": "waits for the new payment provider", "at": iso(ago(5300))}
    shop.put("payments", document("payments", control=control, history=history(gaps=range(42, 60))))
    shop.audit("payments", change("pause", 88, "ana", "waits for the new payment provider"))
    shop.put("invoices", document("invoices", history=history(gaps=[*range(50, 60)])))
    return shop


def hostile_shop() -> Shop:
    """Whoever can write the container has written what a page might run."""
    bound = BoundOutput(kind=HOSTILE, value=HOSTILE, held_by=HOSTILE, reason=HOSTILE)
    said: dict[str, Any] = {"by": HOSTILE, "why": HOSTILE, "moved_by": HOSTILE, "moved_at": ago(1), "two_apps": HOSTILE}
    wrong: dict[str, Any] = {
        "source": "error",
        "trouble": HOSTILE,
        "step": HOSTILE,
        "error_type": HOSTILE,
        "error_text": HOSTILE,
    }
    sick = poller("orders", bound=bound, paused=True, failures=2, attempts=2, aside=1, row=HOSTILE,
                  **said, **wrong, **at_work(3, HOSTILE))  # fmt: skip
    far = poller("far", **waits(2**53, 1e308, committed_at=NOW))
    shop = Shop(lambda: [sick, poller(HOSTILE), far])
    lease = {"owner_id": HOSTILE, "fencing_token": 3, "heartbeat_at": iso(NOW)}
    entries = [{**entry, "owner": HOSTILE} for entry in history()]
    error = {"type": HOSTILE, "message": "Jane Doe"}
    shop.put(
        "orders",
        document(
            "orders",
            lease=lease,
            history=entries,
            control={"paused": True, "by": HOSTILE, "reason": HOSTILE},
            delivery={"attempts": 2, "last_error": error},
            quarantine=[waiting(1), waiting(2, id=HOSTILE)],
        ),
    )
    shop.record("orders", 1, HOSTILE)
    shop.audit(
        "orders",
        change(HOSTILE, 3, HOSTILE, HOSTILE),
        change("pause", 2, HOSTILE, HOSTILE),
        {"id": "x", "kind": 7, "at": HOSTILE, "by": ["<b>"]},
    )
    return shop
