"""`poller recheck`: rows that appeared below the checkpoint are found, and with --redeliver handed to the handler."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from poller import Batch, Poller
from poller.errors import ConfigError
from poller.observability import LateRows, MetricsObserver, PollerEvent, Rechecked
from poller.stores import BlobStore, MemoryStore
from tests.cli.databases import configure
from tests.cli.project import NOTING, Project, end
from tests.integration.sources.tables import add_orders, closing, execute, make_orders, orders
from tests.support.azurite import Azurite
from tests.support.schemas import validator
from tests.support.services import wait_until

OLD = datetime(2026, 1, 1, tzinfo=UTC)


def stamps(count: int, step: int = 10) -> list[str]:
    return [f"{OLD + timedelta(seconds=step * n):%Y-%m-%d %H:%M:%S}" for n in range(count)]


def recheck(project: Project, *arguments: str) -> dict[str, Any]:
    ended = project.run("recheck", "orders", "--json", *arguments)
    assert ended.code == 0, ended.err
    validator("recheck").validate(ended.json)
    found: dict[str, Any] = ended.json
    return found


def late(found: dict[str, Any]) -> list[int]:
    return [cursor["tiebreaker"]["id"] for cursor in found["late"]]


@pytest.mark.guarantee("Rows that commit late", "Rows that appear below the cursor can be found")
def test_rows_under_the_cursor_are_found_and_delivered_once(project: Project, any_db: str) -> None:
    make_orders(any_db, stamps(30))
    configure(project, any_db, 'cursor_time_zone = "UTC"', 'audit_window = "2h"\nbatch_size = 7')
    (project.folder / "handlers.py").write_text(NOTING)
    assert project.run("run", "--once").code == 0
    add_orders(any_db, stamps(3), first=31)  # above: three rows that come by themselves
    execute(any_db, "update orders set updated_at = '2026-01-01 02\\:00\\:00' where id > 30")
    assert project.run("run", "--once").code == 0
    assert recheck(project) | {"compared": 33, "late_rows": 0, "complete": True} == recheck(project)

    execute(
        any_db,
        "insert into orders values (101, '2026-01-01 00\\:00\\:05', 'open', 1)",  # between two rows
        "insert into orders values (102, '2025-06-01 00\\:00\\:00', 'open', 1)",  # before the first
        "insert into orders values (103, '2026-01-01 00\\:00\\:10', 'open', 1)",  # in a tie
        "insert into orders values (104, '2026-01-01 03\\:00\\:00', 'open', 1)",  # ahead: not late
        "update orders set updated_at = '2026-01-01 01\\:00\\:00' where id = 20",  # a version never delivered
        "delete from orders where id in (1, 9)",
    )
    found = recheck(project)
    assert late(found) == [102, 101, 103, 20]
    assert (found["late_rows"], found["redelivered"]) == (4, 0)
    before = project.run("status", "--json").json["pollers"][0]["cursor"]

    assert recheck(project, "--redeliver", "--dry-run")["redelivered"] == 0
    assert recheck(project, "--redeliver", "--yes")["redelivered"] == 4
    assert [line.split()[1] for line in project.lines("seen")][-4:] == ["102", "101", "103", "20"]
    status = project.run("status", "--json").json["pollers"][0]
    assert status["cursor"] == before, "the checkpoint must not move"
    assert (status["lease"]["owner_id"], status["attempts"]) == (None, 0)
    assert recheck(project)["late_rows"] == 0
    assert project.run("run", "--once").code == 0
    assert project.lines("seen")[-1].split()[1] == "104"


def test_rows_from_before_the_delivery_log_are_unknown_not_late(project: Project) -> None:
    project.configure("orders")
    project.insert(20)
    assert project.run("run", "--once").code == 0
    refused = project.run("recheck", "orders")
    assert refused.code == 2
    assert "audit_window" in refused.error
    project.configure("orders", poller='audit_window = "1h"')
    assert recheck(project) | {"stretches": 0, "late_rows": 0} == recheck(project)
    project.insert(20)
    assert project.run("run", "--once").code == 0
    project.execute("INSERT INTO orders VALUES (500, '2026-01-01 00:00:00.5')")  # where nothing was noted
    project.execute("INSERT INTO orders VALUES (501, '2026-01-01 00:00:03.5')")
    assert late(recheck(project)) == [501]
    assert recheck(project, "--since", "0s")["stretches"] == 0
    assert project.run("recheck", "orders", "--since", "soon").code == 2


def test_after_a_reset_rows_above_the_checkpoint_are_not_late(project: Project) -> None:
    project.configure("orders", poller='audit_window = "1h"')
    project.insert(40)
    assert project.run("run", "--once").code == 0
    value = "2026-01-01 00:00:01"
    reset = project.run("reset-to-cursor", "orders", "--value", value, "--pk", "id=15", "--yes")
    assert reset.code == 0, reset.err
    project.execute("INSERT INTO orders VALUES (500, '2026-01-01 00:00:00.5')")
    project.execute("INSERT INTO orders VALUES (501, '2026-01-01 00:00:02.5')")
    assert late(recheck(project)) == [500]


def test_a_pause_ends_a_redelivery_after_the_batch_in_hand(project: Project) -> None:
    project.configure("orders", handlers=NOTING, poller='audit_window = "1h"\nbatch_size = 2')
    project.insert(10)
    assert project.run("run", "--once").code == 0
    for row in range(500, 505):
        project.execute(f"INSERT INTO orders VALUES ({row}, '2025-01-01 00:00:00')")
    for name in ("started", "seen"):
        (project.folder / name).unlink()
    (project.folder / "wait").touch()
    redelivering = project.start("recheck", "orders", "--redeliver", "--yes")
    wait_until(lambda: project.lines("started"))
    assert project.run("pause", "orders", "--yes").code == 0
    (project.folder / "wait").unlink()
    ended = end(redelivering)
    assert (ended.code, "paused, after 2 of 5" in ended.err) == (3, True), ended.err
    assert [line.split()[1] for line in project.lines("seen")] == ["500", "501"]
    assert project.run("resume", "orders", "--yes").code == 0
    assert recheck(project, "--redeliver", "--yes")["redelivered"] == 3


def test_a_handler_that_fails_on_late_rows_leaves_them_late(project: Project) -> None:
    project.configure("orders", poller='audit_window = "1h"')
    project.insert(10)
    assert project.run("run", "--once").code == 0
    project.execute("INSERT INTO orders VALUES (500, '2025-01-01 00:00:00')")
    (project.folder / "handlers.py").write_text("def handle(batch): raise ValueError('no')\n")
    ended = project.run("recheck", "orders", "--redeliver", "--yes")
    assert ended.code == 1
    assert "ValueError" in ended.err
    lease = project.run("status", "--json").json["pollers"][0]["lease"]
    assert lease["owner_id"] is None
    assert late(recheck(project)) == [500]


LOOKING = """
import json, sqlite3
def handle(batch):
    with sqlite3.connect("state.db") as db:
        ((body,),) = db.execute("SELECT body FROM poller_documents WHERE name LIKE 'state/%'")
    with open("attempts", "a") as out:
        out.write(f"{batch.batch_id[:4]} {json.loads(body)['delivery']['attempts']}\\n")
"""
"""A handler that notes what a process that came after a kill would find."""


def test_a_redelivery_is_no_start_of_the_pending_batch(project: Project) -> None:
    """Killed, it would otherwise bring the batch that waits behind the checkpoint nearer to a halt."""
    project.configure("orders", poller='audit_window = "1h"\nmax_attempts = 1')
    project.insert(10)
    assert project.run("run", "--once").code == 0
    project.execute("INSERT INTO orders VALUES (500, '2025-01-01 00:00:00')")
    project.insert(3)
    (project.folder / "handlers.py").write_text(LOOKING)
    assert project.run("recheck", "orders", "--redeliver", "--yes").code == 0
    assert project.lines("attempts") == ["late 0"]
    assert project.run("run", "--once").code == 0
    assert project.lines("attempts")[1].endswith(" 1")


def _poller(url: str, store: Any, events: list[PollerEvent], **options: Any) -> Poller:
    return Poller("orders", source=orders(url), store=store, app_name="shop", observers=[events.append], **options)


def _nothing(batch: Batch) -> None:
    pass


def test_every_n_ticks_it_looks_back_and_reports(sqlite_url: str) -> None:
    make_orders(sqlite_url, stamps(10))
    events: list[PollerEvent] = []
    with _poller(sqlite_url, MemoryStore(), events, audit_window="1h", recheck_every=2) as poller:
        poller.tick(_nothing)
        execute(sqlite_url, "insert into orders values (99, '2025-01-01 00\\:00\\:00', 'open', 1)")
        assert not [event for event in events if isinstance(event, Rechecked)]
        poller.tick(_nothing)
    (event,) = [event for event in events if isinstance(event, LateRows)]
    assert event.rows == 1
    assert "id=99" in event.examples[0]


def test_what_is_no_longer_late_is_not_handed_over(sqlite_url: str) -> None:
    """Two operators look, and answer one after the other; a row changes in between, and its new version came."""
    make_orders(sqlite_url, stamps(10))
    seen: list[tuple[int, str]] = []

    def handle(batch: Batch) -> None:
        seen.extend((row["id"], row["status"]) for row in batch)

    with closing(orders(sqlite_url)) as source:
        poller = Poller("orders", app_name="shop", source=source, store=MemoryStore(), audit_window="2h", observers=())
        poller.tick(handle)
        execute(
            sqlite_url,
            "insert into orders values (101, '2025-06-01 00\\:00\\:00', 'open', 1)",
            "insert into orders values (102, '2025-06-01 00\\:00\\:00', 'open', 1)",
        )
        ours, theirs = poller.recheck(), poller.recheck()
        execute(sqlite_url, "update orders set status = 'paid', updated_at = '2026-01-02 00\\:00\\:00' where id = 102")
        poller.tick(handle)
        del seen[:-1]
        poller.redeliver(ours, handle)
        poller.redeliver(theirs, handle)
    assert seen == [(102, "paid"), (101, "open")]
    assert (ours.redelivered, theirs.redelivered, theirs.rows) == (1, 0, [])


def test_the_metric_is_what_the_last_look_found() -> None:
    reader = InMemoryMetricReader()
    observe = MetricsObserver(MeterProvider([reader]))
    for late_rows in (3, 0):
        observe(Rechecked(poller="orders", at=OLD, compared=10, late=late_rows, complete=True))
        data = reader.get_metrics_data()
        assert data is not None
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
        (gauge,) = [metric for metric in metrics if metric.name == "poller.late_rows"]
        assert [point.value for point in gauge.data.data_points] == [late_rows]  # type: ignore[union-attr]


def test_recheck_every_needs_the_window(sqlite_url: str) -> None:
    with pytest.raises(ConfigError) as error:
        _poller(sqlite_url, MemoryStore(), [], recheck_every=2)
    assert error.value.key == "recheck_every"


def test_without_a_window_nothing_is_noted(sqlite_url: str) -> None:
    make_orders(sqlite_url, stamps(10))
    store = MemoryStore()
    with _poller(sqlite_url, store, []) as poller:
        poller.tick(_nothing)
    assert list(store.names("seen/")) == []


def test_delivery_logs_in_blobs_are_read_back(sqlite_url: str, azurite: Azurite, container: str) -> None:
    make_orders(sqlite_url, stamps(25))
    store = BlobStore.from_connection_string(azurite.connection_string, container)
    with _poller(sqlite_url, store, [], audit_window="1h", batch_size=10) as poller:
        poller.tick(_nothing)
        execute(sqlite_url, "insert into orders values (99, '2026-01-01 00\\:00\\:05', 'open', 1)")
        found = poller.recheck()
        (document,) = store.names("seen/")
        lines = [json.loads(line) for line in store.lines(document)]
    assert [cursor.tiebreaker for cursor in found.cursors] == [{"id": 99}]
    assert (found.compared, found.stretches, len(lines)) == (26, 1, 3)


def test_a_delivery_log_that_cannot_be_written_fails_no_tick(sqlite_url: str, tmp_path: Path) -> None:
    from poller.errors import StoreUnavailable

    class Deaf(MemoryStore):
        def append(self, name: str, line: str, **timeout: Any) -> None:
            raise StoreUnavailable("nobody answers", document=name)

    make_orders(sqlite_url, stamps(5))
    events: list[PollerEvent] = []
    with _poller(sqlite_url, Deaf(), events, audit_window="1h") as poller:
        assert poller.tick(_nothing).outcome == "delivered"
        execute(sqlite_url, "insert into orders values (99, '2025-01-01 00\\:00\\:00', 'open', 1)")
        assert poller.recheck().stretches == 0
    assert "audit_failed" in [event.name for event in events]


def test_the_order_can_be_read_again_between_two_cursors(any_db: str) -> None:
    make_orders(any_db, stamps(20, step=0) + stamps(20))
    with closing(orders(any_db)) as source:
        cursors = list(source.span(None, None, 100).cursors)
        for low, high in ((None, 0), (0, 5), (5, 25), (19, 20), (20, 39)):
            begin = None if low is None else cursors[low]
            found = list(source.span(begin, cursors[high], 100).cursors)
            assert found == cursors[0 if low is None else low + 1 : high + 1]
        assert list(source.span(cursors[3], cursors[30], 4).cursors) == cursors[4:8]


@pytest.fixture
def late_rows(project: Project) -> Project:
    """Three rows that appeared under the cursor."""
    project.configure("orders", poller='audit_window = "1h"\nbatch_size = 2', handlers="def handle(batch): pass\n")
    project.insert(10)
    assert project.run("run", "--once").code == 0
    for row in (500, 501, 502):
        project.execute(f"INSERT INTO orders VALUES ({row}, '2025-01-01 00:00:00')")
    return project


def test_the_trail_names_the_operator_how_many_and_why(late_rows: Project) -> None:
    late_rows.environ["POLLER_OPERATOR"] = "ada"
    assert late_rows.run("recheck", "orders", "--redeliver", "--yes", "--reason", "the restore").code == 0
    records = [one for one in late_rows.run("history", "orders", "--json").json["records"] if one["kind"] == "recheck"]
    assert [(one["by"], one["reason"]) for one in records] == [("ada", "3 of 3 late rows delivered: the restore")]


def test_after_a_failure_the_next_command_and_the_count_are_shown(late_rows: Project) -> None:
    fails = FAILS + "def handle(batch):\n    if batch.rows[0]['id'] > 501: raise ValueError('no such customer')\n"
    (late_rows.folder / "handlers.py").write_text(fails)
    config = str(late_rows.folder / "poller.toml")
    ended = late_rows.run("-c", config, "recheck", "orders", "--since", "1h", "--redeliver", "--yes")
    assert ended.code == 1
    step = f"Fix it, then run: poller -c {config} recheck orders --since 1h --redeliver"
    assert ended.error.endswith(f"no such customer. {step}")
    assert "2 of 3 went to the handler" in ended.out
    record = late_rows.run("history", "orders", "--json").json["records"][-1]
    assert record["reason"] == "2 of 3 late rows delivered"


def test_production_wants_the_name_only_where_a_checkpoint_moves(late_rows: Project) -> None:
    late_rows.write('environment = "production"\n' + (late_rows.folder / "poller.toml").read_text())
    assert late_rows.run("recheck", "orders", "--redeliver", "--yes").code == 0
    range_ = ("--from", "2026-01-01 00:00:00", "--to", "2026-01-01 00:00:01")
    assert late_rows.run("backfill", "orders", *range_, "--yes").code == 0
    assert late_rows.run("pause", "orders", "--yes").code == 0
    assert late_rows.run("reset-to-beginning", "orders", "--yes").code == 3
    for command in ("recheck", "backfill", "pause", "resume"):
        assert "needed with" not in late_rows.run(command, "--help").out


SAID = "row of Jane Doe"
FAILS = f"""
class Apart(BaseException): pass
def raises(batch): raise ValueError("{SAID}\\nand more")
def raises_apart(batch): raise Apart("{SAID}")
async def exits_in_a_loop(batch): raise SystemExit("{SAID}")
"""
FIX = "Fix it, then run: poller recheck orders --redeliver"


def _redelivered(project: Project, handler: str, options: str) -> str:
    project.configure("orders", poller=f'audit_window = "1h"\n{options}')
    project.insert(10)
    assert project.run("run", "--once").code == 0
    project.execute("INSERT INTO orders VALUES (500, '2025-01-01 00:00:00')")
    (project.folder / "handlers.py").write_text(FAILS + f"handle = {handler}\n")
    ended = project.run("recheck", "orders", "--redeliver", "--yes")
    assert ended.code == 1, ended.err
    return ended.err


@pytest.mark.parametrize(
    ("handler", "kind"),
    [("raises_apart", "Apart"), ("exits_in_a_loop", "SystemExit")],
)
def test_what_it_says_is_shown_only_where_it_may_be(project: Project, handler: str, kind: str) -> None:
    event = _redelivered(project, handler, "error_text = false")
    assert event.endswith(f"orders: the handler failed on a batch of late rows: {kind}. {FIX}\n")
    assert SAID not in event


@pytest.mark.parametrize("options", ["", 'isolation = "process"'])
def test_its_type_and_first_line_are_shown_wherever_it_ran(project: Project, options: str) -> None:
    assert _redelivered(project, "raises", options).endswith(f"late rows: ValueError: {SAID}. {FIX}\n")
