"""`Poller.backfill()` of a poller made in Python, and pausing one by its name."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from poller import Batch, ConfigError, Poller, load_app
from poller.admin import Refused, WrongArgument, clone_checkpoint
from poller.backfill import Backfill, BackfillRequest, pause, resume
from poller.ports import Found, Source
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.runner.clockwork import Clockwork
from tests.integration.runner.fakes import Table

BEGINS, ENDS = "2026-01-01 00:00:02", "2026-01-01 00:00:06"
IN_RANGE = [2, 3, 4, 5]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Ten rows, one a second."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        rows = [(n, f"2026-01-01 00:00:{n:02d}") for n in range(10)]
        database.executemany("INSERT INTO orders VALUES (?, ?)", rows)
    return tmp_path / "shop.db"


class Store(MemoryStore):
    """A store that knows whether it was closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def store() -> Store:
    return Store()


def source_of(shop: Path, **options: Any) -> SqlSource:
    settings = {"cursor_column": "updated_at", "cursor_time_zone": "UTC", "pk_columns": ["id"], **options}
    return SqlSource(f"sqlite:///{shop}", table="orders", **settings)


def orders(source: Source, store: Store, **options: Any) -> Poller:
    return Poller("orders", source=source, store=store, app_name="shop", observers=[], batch_size=2, **options)


class Seen:
    """A handler that remembers its rows, and by which poller they came."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.pollers: list[str] = []

    def __call__(self, batch: Batch) -> None:
        self.ids += [row["id"] for row in batch]
        self.pollers += [batch.poller_name] * len(batch)


def state(store: Store, name: str) -> dict[str, Any]:
    found = store.read(f"state/shop/{name}.json")
    assert isinstance(found, Found)
    document: dict[str, Any] = json.loads(found.body)
    return document


def test_a_range_is_delivered_once_and_the_poller_stays(shop: Path, store: Store) -> None:
    seen = Seen()
    with orders(source_of(shop), store) as poller:
        poller.tick(lambda batch: None)
        before = state(store, "orders")

        output = poller.backfill(BEGINS, ENDS, handler=seen, by="release 42")
        again = poller.backfill(BEGINS, ENDS, handler=seen)
        more = poller.backfill(BEGINS, ENDS, handler=seen, name="orders-again")

        assert state(store, "orders") == before
    assert (output.finished, output.rows, output.pending, output.next_step) == (True, 4, 4, None)
    assert (again.finished, again.already_done, again.rows) == (True, True, 0)
    assert again.next_step == "To deliver it once more, give it another name: name='orders-again'"
    assert more.finished
    assert seen.ids == IN_RANGE * 2
    assert set(seen.pollers) == {output.name, "orders-again"}
    assert state(store, output.name)["checkpoint"]["metadata"]["backfill"]["by"] == "release 42"
    assert state(store, output.name)["control"]["last_change"]["by"] == "release 42"


@pytest.mark.parametrize(
    ("begins", "ends", "ids"),
    [
        (datetime(2026, 1, 1, 0, 0, 8), date(2026, 1, 2), [8, 9]),
        (date(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 2), [0, 1]),
        ("2026-01-01 00:00:01", "2026-01-01T00:00:03", [1, 2]),
    ],
)
def test_ends_are_given_as_times_or_as_text(
    shop: Path, store: Store, begins: str | date, ends: str | date, ids: list[int]
) -> None:
    seen = Seen()
    with orders(source_of(shop), store) as poller:
        assert poller.backfill(begins, ends, handler=seen).finished
    assert seen.ids == ids


def test_ends_of_a_number_are_given_as_numbers(shop: Path, store: Store) -> None:
    seen = Seen()
    source = source_of(shop, cursor_column="id", cursor_kind="integer+pk", cursor_time_zone=None, bound="none")
    with orders(source, store) as poller:
        output = poller.backfill(3, 5, handler=seen)
    assert (output.begins, output.ends, seen.ids) == ("3", "5", [3, 4])


def test_it_runs_beside_the_pollers_own_tick(shop: Path, store: Store) -> None:
    """Called from the handler, in the middle of a batch: it reads on a connection of its own."""
    seen, live = Seen(), Seen()
    with orders(source_of(shop), store, max_batches_per_tick=20) as poller:

        def handle(batch: Batch) -> None:
            live(batch)
            poller.backfill(BEGINS, ENDS, handler=seen)

        assert poller.tick(handle).rows == 10
    assert seen.ids == IN_RANGE
    assert live.ids == list(range(10))


def test_parts_are_delivered_at_once_and_leave_the_store_open(shop: Path, store: Store) -> None:
    together = threading.Barrier(2, timeout=30)
    seen = Seen()

    def handle(batch: Batch) -> None:
        together.wait()
        seen(batch)

    poller = orders(source_of(shop), store)
    output = poller.backfill(BEGINS, ENDS, parallel=2, name="cut", handler=handle)

    assert output.finished
    assert Counter(seen.pollers) == {"cut-1of2": 2, "cut-2of2": 2}
    assert [part.rows for part in output.parts] == [2, 2]
    assert store.closed is False
    poller.close()
    assert store.closed is True


def test_stopped_it_says_so_and_goes_on_when_called_again(shop: Path, store: Store) -> None:
    stop, seen = threading.Event(), Seen()

    def handle(batch: Batch) -> None:
        seen(batch)
        stop.set()

    with orders(source_of(shop), store) as poller:
        output = poller.backfill(BEGINS, ENDS, handler=handle, stop=stop)
        assert (output.finished, output.rows, seen.ids) == (False, 2, [2, 3])
        assert output.next_step == "Make the same call again to go on."
        assert output.parts[0].error == "stopped before nothing was left"
        assert poller.backfill(BEGINS, ENDS, handler=seen).finished
    assert seen.ids == IN_RANGE


def test_a_failing_handler_halts_it_and_retry_goes_on(shop: Path, store: Store) -> None:
    seen = Seen()

    def fail(batch: Batch) -> None:
        if any(row["id"] == 4 for row in batch):
            raise ValueError("no such customer")
        seen(batch)

    with orders(source_of(shop), store, max_attempts=1, on_poison="halt") as poller:
        output = poller.backfill(BEGINS, ENDS, handler=fail)
        assert (output.finished, output.rows, output.parts[0].halted) == (False, 2, True)
        assert "no such customer" in (output.parts[0].error or "")
        assert output.next_step == "Fix it, then make the same call with retry=True."
        with pytest.raises(Refused, match=r"is halted: ValueError: no such customer. Nothing was delivered."):
            poller.backfill(BEGINS, ENDS, handler=seen)
        assert poller.backfill(BEGINS, ENDS, handler=seen, retry=True).finished
    assert seen.ids == IN_RANGE


def test_a_backfill_with_a_row_aside_is_not_finished(shop: Path, store: Store) -> None:
    seen, bad = Seen(), {4}

    def take(batch: Batch) -> None:
        for row in batch:
            if row["id"] in bad:
                batch.fail(row, "no such customer")
            else:
                seen.ids.append(row["id"])

    with orders(source_of(shop), store, on_poison="quarantine", retry_backoff="1ms") as poller:
        output = poller.backfill(BEGINS, ENDS, handler=take)
        assert (output.finished, seen.ids) == (False, [2, 3, 5])
        assert "1 row of it is set aside and not delivered yet" in (output.parts[0].error or "")
        assert f"poller quarantine list {output.name}" in (output.parts[0].error or "")
        bad.clear()
        again = (poller.backfill(BEGINS, ENDS, handler=take) for _ in range(1000))
        assert any(one.finished for one in again), "once its time has come"
    assert seen.ids == [2, 3, 5, 4]


def test_a_backfill_with_a_rejected_row_waits_for_a_person(shop: Path, store: Store) -> None:
    def reject(batch: Batch) -> None:
        batch.reject(batch.rows[0], "a test order")

    with orders(source_of(shop), store, on_poison="quarantine") as poller:
        output = poller.backfill(BEGINS, ENDS, handler=reject)
        assert not output.finished
        assert "2 rows of it are not delivered, and wait for a person" in (output.parts[0].error or "")


def test_what_a_tick_raised_is_in_the_result(shop: Path, store: Store) -> None:
    """As where the table goes away in the middle: what is committed is, and the error is one."""

    def handle(batch: Batch) -> None:
        with closing(sqlite3.connect(shop)) as database, database:
            database.execute("DROP TABLE orders")

    with orders(source_of(shop), store) as poller:
        output = poller.backfill(BEGINS, ENDS, handler=handle)
    assert (output.finished, output.rows) == (False, 2)
    assert output.parts[0].error == str(output.parts[0].failure)
    assert "orders" in (output.parts[0].error or "")


def test_a_dry_run_says_what_it_would_do(shop: Path, store: Store) -> None:
    with orders(source_of(shop), store) as poller:
        output = poller.backfill(BEGINS, ENDS, parallel=2, dry_run=True)
    assert (output.dry_run, output.finished, output.pending, len(output.parts)) == (True, False, 4, 2)
    assert list(store.names("")) == []


def refused(call: Callable[[], object], error: type[Exception], says: str, store: Store) -> None:
    with pytest.raises(error, match=says):
        call()
    assert list(store.names("")) == []


@pytest.mark.parametrize("parallel", [0, 33, True, "2"])
def test_a_number_of_parts_that_cannot_be_is_refused(shop: Path, store: Store, parallel: Any) -> None:
    with orders(source_of(shop), store) as poller:
        call = lambda: poller.backfill(BEGINS, ENDS, parallel=parallel)  # noqa: E731
        refused(call, WrongArgument, "parallel: .* is not a whole number from 1 to 32", store)


def test_an_end_that_is_no_end_is_refused(shop: Path, store: Store) -> None:
    with orders(source_of(shop), store) as poller:
        refused(lambda: poller.backfill(None, ENDS), WrongArgument, "begins: None is neither", store)  # type: ignore[arg-type]


def test_without_a_handler_nothing_is_begun(shop: Path, store: Store) -> None:
    with orders(source_of(shop), store) as poller:
        refused(lambda: poller.backfill(BEGINS, ENDS), ConfigError, "handler: is missing", store)

        def generator(batch: Batch) -> Any:
            yield batch

        refused(lambda: poller.backfill(BEGINS, ENDS, handler=generator), ConfigError, "generator", store)


def test_a_source_without_ranges_is_refused(store: Store) -> None:
    with orders(Table(Clockwork()), store) as poller:
        refused(lambda: poller.backfill(1, 2), ConfigError, "Table is no SqlSource", store)


@pytest.mark.guarantee(
    "One worker at a time",
    "First calls of one backfill at the same moment, in whatever number of parts, deliver its range once",
)
@pytest.mark.parametrize("parallel", [1, 3])
def test_first_calls_with_other_numbers_deliver_a_range_once(shop: Path, store: Store, parallel: int) -> None:
    """All of them find no document, and each would make its own."""
    first, second = orders(source_of(shop), store), orders(source_of(shop), store)
    seen = Seen()
    with Backfill(first, BackfillRequest(BEGINS, ENDS, name="cut", parallel=parallel)) as work:
        assert work.prepare() is None
        second.backfill(BEGINS, ENDS, name="cut", parallel=2, handler=seen)
        with pytest.raises(Refused, match="Another call has just begun cut with parallel=2"):
            work.deliver(seen)
    assert sorted(seen.ids) == IN_RANGE
    again = first.backfill(BEGINS, ENDS, name="cut", parallel=parallel, handler=seen)
    assert (again.already_done, len(again.parts)) == (True, 2)


def test_a_first_call_that_was_killed_is_gone_on_with(shop: Path, store: Store) -> None:
    """It had said in how many parts, and made no document yet."""
    store.write("backfills/shop/cut.json", b'{"version": 1, "parts": 2}', if_tag=None)
    seen = Seen()
    output = orders(source_of(shop), store).backfill(BEGINS, ENDS, name="cut", handler=seen)
    assert (output.finished, len(output.parts), sorted(seen.ids)) == (True, 2, IN_RANGE)


@pytest.mark.parametrize("name", ["cut", "cut-1of2"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_no_clone_takes_the_name_of_a_backfill_in_parts(shop: Path, store: Store, name: str, overwrite: bool) -> None:
    poller = orders(source_of(shop), store)
    poller.tick(lambda _: None)
    poller.backfill(BEGINS, ENDS, name="cut", parallel=2, handler=Seen())
    before = state(store, "cut-1of2")
    with pytest.raises(Refused, match=f"{name} is a backfill's name"):
        clone_checkpoint(poller, name, overwrite=overwrite)
    assert state(store, "cut-1of2") == before
    assert clone_checkpoint(poller, "cut-2").changed


CONFIG = """
app_name = "shop"
[state]
store = "sql"
[pollers.orders]
handler = "handlers:handle"
[pollers.orders.source]
url = "sqlite:///shop.db"
table = "orders"
cursor_column = "updated_at"
cursor_time_zone = "UTC"
pk_columns = ["id"]
"""


def test_a_program_pauses_and_resumes_it_by_its_name(shop: Path) -> None:
    path = shop.parent / "poller.toml"
    path.write_text(CONFIG)
    (shop.parent / "handlers.py").write_text("def handle(batch): pass\n")
    stop, seen = threading.Event(), Seen()
    stop.set()
    with load_app(path, {}, observers=[]) as app:
        poller = app.poller("orders")
        assert not poller.backfill(BEGINS, ENDS, name="cut", parallel=2, handler=seen, stop=stop).finished

        paused = pause(app, "cut", reason="night", by="ada")
        with pytest.raises(Refused, match=r"cut was paused by ada at .*: night. Nothing was delivered. To go on: "):
            poller.backfill(BEGINS, ENDS, name="cut", handler=seen)
        for name in ("orders", "nobody", "No Name"):
            with pytest.raises(ConfigError, match=f"no backfill '{name}' of shop"):
                pause(app, name)
        looked = app.status(["cut"])
        assert looked.pollers == []
        assert {(one.name, one.paused) for one in looked.backfills or ()} == {("cut-1of2", True), ("cut-2of2", True)}
        with pytest.raises(WrongArgument, match="cut is cut into 2 parts"):
            app.one("cut")
        assert app.one("cut-2of2").name == "cut-2of2"
        with pytest.raises(Refused, match="cut is a backfill of orders"):
            app.poller("cut")
        resumed = resume(app, "cut-1of2")
        half = poller.backfill(BEGINS, ENDS, name="cut", handler=seen)

    assert [(part.name, part.changed) for part in paused.parts] == [("cut-1of2", True), ("cut-2of2", True)]
    command = f"poller -c {path} backfill orders --from '{BEGINS}' --to '{ENDS}' --as cut"
    assert resumed.notes[-1] == f"To go on with it, run: {command}"
    assert [part.finished for part in half.parts] == [True, False]
    assert half.next_step == f"To go on: poller -c {path} resume cut; then make the same call again."
    assert seen.ids == [2, 3]


def test_one_paused_before_all_its_parts_are_there_is_paused_whole(shop: Path) -> None:
    """A first call that was killed made one of two: the pause found no other."""
    path = shop.parent / "poller.toml"
    path.write_text(CONFIG)
    (shop.parent / "handlers.py").write_text("def handle(batch): pass\n")
    seen = Seen()
    with load_app(path, {}, observers=[]) as app:
        poller = app.poller("orders")
        with Backfill(poller, BackfillRequest(BEGINS, ENDS, name="cut", parallel=2)) as work:
            assert work.prepare() is None

            def killed(*_: Any, **__: Any) -> None:
                raise KeyboardInterrupt

            work.parts[1].begin = killed  # type: ignore[method-assign]
            with pytest.raises(KeyboardInterrupt):
                work.deliver(seen)

        paused = pause(app, "cut", reason="night", by="ada")
        with pytest.raises(Refused, match=r"cut was paused by ada at .*: night. Nothing was delivered. To go on: "):
            poller.backfill(BEGINS, ENDS, name="cut", handler=seen)
        assert seen.ids == []
        resume(app, "cut")
        assert poller.backfill(BEGINS, ENDS, name="cut", handler=seen).finished

    assert (paused.name, paused.changed) == ("cut-1of2", True)
    assert sorted(seen.ids) == IN_RANGE


def test_one_paused_while_its_parts_are_made_is_paused_whole(shop: Path) -> None:
    """The pause comes between the first document and the second."""
    path = shop.parent / "poller.toml"
    path.write_text(CONFIG)
    (shop.parent / "handlers.py").write_text("def handle(batch): pass\n")
    seen = Seen()
    with load_app(path, {}, observers=[]) as app:
        poller = app.poller("orders")
        with Backfill(poller, BackfillRequest(BEGINS, ENDS, name="cut", parallel=2)) as work:
            assert work.prepare() is None
            begin = work.parts[1].begin

            def later(*args: Any, **options: Any) -> None:
                pause(app, "cut", reason="night", by="ada")
                begin(*args, **options)

            work.parts[1].begin = later  # type: ignore[method-assign]
            with pytest.raises(Refused, match=r"cut was paused by ada at .*: night. Nothing was delivered. To go on: "):
                work.deliver(seen)
    assert seen.ids == []
