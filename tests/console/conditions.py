"""Shops whose poller `orders` is in each condition of the table in docs/health.md, made by ticks and commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from sqlite3 import connect
from typing import Any

from tests.console.world import STATE, World

MINUTES = 60.0
LATE = 20 * MINUTES
TRIES = 'max_attempts = 2\nretry_backoff = "10s"\nretry_backoff_max = "5m"\n'
QUARANTINE = f'on_poison = "quarantine"\n{TRIES}'
NUMBERS = 'cursor_kind = "integer+pk"'
ONE_PLACE = f"{QUARANTINE}max_quarantined = 1\n"


@dataclass(frozen=True)
class Shop:
    """How a shop comes into a condition.

    Attributes:
        name: the condition that is its word. becomes: what happens there. options: of `World`. of: whose it is.
        meanwhile: what holds while the screens are looked at.
    """

    name: str
    becomes: Callable[[World], object]
    options: dict[str, Any] = field(default_factory=dict)
    meanwhile: Callable[[World], AbstractContextManager[object]] = lambda _: nullcontext()
    of: str = "orders"

    def world(self, folder: Path) -> World:
        """A shop with two pollers, the second of which has an empty table."""
        world = World(folder, more=("invoices",), **self.options)
        self.becomes(world)
        return world


SHOPS: dict[str, Shop] = {}


def shop(
    name: str, *, word: str | None = None, of: str = "orders", **options: Any
) -> Callable[[Callable[[World], object]], None]:
    """Add a shop; `word`: its condition, if that is not its name; `of`: whose it is."""
    meanwhile = options.pop("meanwhile", lambda _: nullcontext())

    def add(becomes: Callable[[World], object]) -> None:
        SHOPS[name] = Shop(word or name, becomes, options, meanwhile, of)

    return add


def ran(world: World, rows: int = 6) -> None:
    """It delivered so many rows."""
    world.rows(rows)
    world.tick()


def failed(world: World, ticks: int = 8, *, mode: str = "fail 5", rows: int = 8) -> None:
    """So many ticks, far enough from each other that a retry pause ends."""
    world.mode(mode)
    world.rows(rows)
    world.tick(ticks, every=20.0)


# --- what cannot be read ----------------------------------------------------------------------------------------------


@shop("misconfigured", poller=QUARANTINE)
def _(world: World) -> None:
    failed(world, 2, mode="reject 3")
    world.configure("invoices", poller=f'{QUARANTINE}ordering_key = ["customer"]')


@shop("store_away")
def _(world: World) -> None:
    ran(world)
    (world.folder / "state.db").unlink()
    (world.folder / "state.db").mkdir()


@shop("unreadable")
def _(world: World) -> None:
    ran(world)
    world.put('{"version": 1, "checkpoint": 7}')


@shop("unreadable-newer", word="unreadable")
def _(world: World) -> None:
    ran(world)
    world.put(json.dumps({**world.document(), "version": 2}))


@shop("unreadable-gone", word="unreadable")
def _(world: World) -> None:
    ran(world)
    world.run("reset", "orders", "--to", "beginning", "--yes")
    world.sql(f"DELETE FROM poller_documents WHERE name = '{STATE}'", database="state.db")


@shop("other_source")
def _(world: World) -> None:
    ran(world)
    world.sql("CREATE TABLE orders_2026 AS SELECT * FROM orders")
    world.configure("invoices", table="orders_2026")


@shop("source_away")
def _(world: World) -> None:
    ran(world)
    (world.folder / "shop.db").unlink()


@shop("source_unreadable")
def _(world: World) -> None:
    ran(world)
    world.sql("DROP TABLE orders")


@shop("capture_gap")
def _(world: World) -> None:
    of_table = 'cursor_column = "updated_at"\ncursor_time_zone = "UTC"\npk_columns = ["id"]\n'
    file = world.folder / "poller.toml"
    file.write_text(file.read_text().replace(of_table, 'capture = true\nstart_from = "beginning"\n', 1))
    world.run("capture", "orders", "--install", "--yes")
    ran(world)
    world.sql("INSERT INTO poller_orders_changes (op) VALUES ('X')")
    world.tick()


@shop("source_behind", cursor="id", source=NUMBERS)
def _(world: World) -> None:
    ran(world)
    world.sql("DELETE FROM orders", "DELETE FROM sqlite_sequence")
    world.rows(2)


# --- calls that fail --------------------------------------------------------------------------------------------------


@shop("halted", poller=f'{TRIES}on_poison = "halt"')
def _(world: World) -> None:
    failed(world)


@shop("halted-other-source", word="halted", poller=f'{TRIES}on_poison = "halt"')
def _(world: World) -> None:
    failed(world)
    world.sql("CREATE TABLE orders_2026 AS SELECT * FROM orders")
    world.configure("invoices", poller=f'{TRIES}on_poison = "halt"', table="orders_2026")


@shop("blocked", poller=ONE_PLACE)
def _(world: World) -> None:
    failed(world, 2, mode="reject 3")
    failed(world, 6, mode="fail 10")


@shop("failing", poller=TRIES)
def _(world: World) -> None:
    failed(world, 4)


@shop("failing-20-min", word="failing", poller=TRIES)
def _(world: World) -> None:
    failed(world)
    world.wait(LATE)
    world.tick()


@shop("failing-outage", word="failing")
def _(world: World) -> None:
    failed(world, 3, mode="down")


@shop("failing-asked-to-wait", word="failing")
def _(world: World) -> None:
    failed(world, 1, mode="later")


@shop("crashing")
def _(world: World) -> None:
    ran(world)
    world.rows(6)
    world.edit(delivery={"attempts": 3})
    world.wait(LATE)


@shop("hung")
def _(world: World) -> None:
    ran(world)
    world.rows(6)
    world.wait(700)
    world.at_work(690)


# --- rows that wait ---------------------------------------------------------------------------------------------------


@shop("never_ran", cursor="id", source=NUMBERS)
def _(world: World) -> None:
    world.rows(3)
    world.run("health")
    world.wait(LATE)


@shop("never_ran-starts-now", word="never_ran", source='start_from = "now"')
def _(world: World) -> None:
    world.run("health")
    world.wait(LATE)


@shop("late")
def _(world: World) -> None:
    ran(world)
    world.rows(2)
    world.wait(LATE)


@shop("late-3-min", word="late")
def _(world: World) -> None:
    ran(world)
    world.rows(2)
    world.wait(3 * MINUTES)


@shop("late-max-lag", word="late", poller='max_lag = "10m"')
def _(world: World) -> None:
    ran(world)
    world.rows(2)
    world.wait(LATE)


@shop("late-nightly-killed", word="late", poller='schedule = "0 0 2 * * *"')
def _(world: World) -> None:
    ran(world)
    world.rows(6)
    world.at_work(5)
    world.wait(LATE)


@shop("not_retried", poller=QUARANTINE)
def _(world: World) -> None:
    failed(world, 6, mode="fail 3")
    world.wait(30 * MINUTES)


@shop("clock_behind")
def _(world: World) -> None:
    ran(world)
    world.edit(bound={"clock": "2099-04-07T01:23:09.500000Z"})
    world.rows(2)


@shop("quarantine_full", poller=ONE_PLACE)
def _(world: World) -> None:
    failed(world, 2, mode="reject 3")


@contextmanager
def _written(world: World) -> Iterator[None]:
    """A transaction of another program is open."""
    with closing(connect(world.folder / "shop.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@shop("bound_held", meanwhile=_written)
def _(world: World) -> None:
    ran(world)
    world.rows(1)
    world.wait(8 * MINUTES)


@shop("settling", source='bound = "delay"\nsettle = "30s"')
def _(world: World) -> None:
    world.rows(6, age=90)
    world.tick()
    world.rows(2)


# --- people and workers -----------------------------------------------------------------------------------------------


def busy(world: World, seconds: float = 5.0, **how: float) -> None:
    """A worker has a batch in hand."""
    ran(world)
    world.rows(6)
    world.at_work(seconds, **how)  # type: ignore[arg-type]


@shop("silent")
def _(world: World) -> None:
    busy(world, 45, heartbeat=40)


@shop("cancelling")
def _(world: World) -> None:
    busy(world)
    world.run("cancel", "orders", "--no-wait", "--yes")


@shop("pausing")
def _(world: World) -> None:
    busy(world)
    world.run("pause", "orders", "--yes")


@shop("paused")
def _(world: World) -> None:
    ran(world)
    world.run("pause", "orders", "--reason", "migration", "--yes")
    world.rows(2)
    world.wait(60 * MINUTES)


@shop("quarantined", poller=QUARANTINE)
def _(world: World) -> None:
    failed(world, 2, mode="reject 3")


@shop("unread", source='on_null_cursor = "skip"')
def _(world: World) -> None:
    ran(world)
    world.sql("INSERT INTO orders (customer) VALUES ('c7')")


@shop("reserved")
def _(world: World) -> None:
    busy(world)
    world.run("reset", "orders", "--to", "here", "--break-lease", "--yes")


@shop("working")
def _(world: World) -> None:
    busy(world)


@shop("new")
def _(world: World) -> None:
    world.rows(3)


@shop("scheduled", poller='schedule = "0 0 2 * * *"')
def _(world: World) -> None:
    ran(world)
    world.rows(2)


@shop("behind")
def _(world: World) -> None:
    ran(world)
    world.rows(2)


@shop("idle")
def _(world: World) -> None:
    ran(world)


@shop("moved", word="behind")
def _(world: World) -> None:
    ran(world)
    world.run("reset", "orders", "--to", "beginning", "--yes")


@shop("set_aside", word="idle", poller=QUARANTINE)
def _(world: World) -> None:
    failed(world, 3, mode="fail 3")


# --- backfills --------------------------------------------------------------------------------------------------------


MORNING = ("--from", "2026-04-07", "--to", "2026-04-07 09:29:59")
AGAIN = "orders-april"


def backfilled(world: World) -> None:
    """It delivered rows, and those of a range again."""
    ran(world)
    world.run("backfill", "orders", *MORNING, "--as", AGAIN, "--yes")


def interrupted(world: World) -> None:
    """A backfill that was killed before its first commit, a while ago."""
    backfilled(world)
    name = f"state/shop/{AGAIN}.json"
    found = world.document(name)
    del found["checkpoint"]["metadata"]["backfill_finished_at"]
    found["checkpoint"] |= {"cursor": None, "last_successful_batch_id": None}
    world.put(json.dumps(found), name)
    world.wait(LATE)


shop("not_running", of=AGAIN)(interrupted)
shop("finished", of=AGAIN)(backfilled)
