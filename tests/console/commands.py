"""What is typed in shops: for each command what it shows, what it shows before it changes something, and a refusal."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.azure_functions_db import ROWS, fixture
from tests.console.conditions import AGAIN, MORNING, QUARANTINE, SHOPS, failed, ran
from tests.console.world import World

DAY = shlex.join(MORNING)


@dataclass(frozen=True)
class Case:
    """What is typed in a shop, one line after the other, and what a person answers to the last of them.

    Attributes:
        shop: a name in `SHOPS`, or what makes of a world what it is to be. options: of `World`, if it is the latter.
    """

    name: str
    shop: str | Callable[[World], object]
    lines: tuple[str, ...]
    answer: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def shown(self, folder: Path) -> Iterator[str]:
        """Each line and what it prints."""
        if isinstance(self.shop, str):
            world = SHOPS[self.shop].world(folder)
        else:
            world = World(folder, **self.options)
            self.shop(world)
        for number, line in enumerate(self.lines, 1):
            yield world.typed(*shlex.split(line), answer=self.answer if number == len(self.lines) else None)

    @property
    def words(self) -> tuple[str, ...]:
        """Those of its last line."""
        return tuple(shlex.split(self.lines[-1]))


CASES: dict[str, Case] = {}


def case(
    name: str, shop: str | Callable[[World], object], *lines: str, answer: str | None = None, **options: Any
) -> None:
    """Add a case."""
    assert name not in CASES
    CASES[name] = Case(name, shop, lines, answer, options)


# --- shops that no condition has --------------------------------------------------------------------------------------


def nowhere(world: World) -> None:
    """A folder without a configuration."""
    (world.folder / "poller.toml").unlink()


def cancelled(world: World) -> None:
    """An operator changed it several times."""
    SHOPS["paused"].becomes(world)
    world.run("resume", "orders", "--yes", "--reason", "it is done")
    world.tick()
    world.run("reset", "orders", "--to", "beginning", "--yes")
    world.wait(60)


def moved_table(world: World) -> None:
    """Its rows are in another table now, which has the same keys."""
    ran(world)
    world.sql(
        "CREATE TABLE orders_2026 (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, customer TEXT, updated_at TEXT)",
        "INSERT INTO orders_2026 SELECT * FROM orders",
        "CREATE INDEX by_time_2026 ON orders_2026 (updated_at, id)",
    )
    world.configure(table="orders_2026")


def passed(world: World) -> None:
    """A row came below the checkpoint."""
    world.configure(poller='audit_window = "1h"')
    ran(world)
    world.rows(1, age=30)
    world.wait(60)


def repaired(world: World) -> None:
    """Two rows wait for a person, and the handler takes them now."""
    failed(world, 2, mode="reject 3")
    failed(world, 2, mode="reject 10")
    world.mode("ok")


def empty(world: World) -> None:
    """A folder with a database only."""
    nowhere(world)
    (world.folder / "handlers.py").unlink()


def of_another_library(world: World) -> None:
    """A table and what azure-functions-db left behind, long ago."""
    world.wait(300 * 86_400)
    world.sql("DROP TABLE orders", "CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT)")
    for number, at in ROWS:
        world.sql(f"INSERT INTO orders VALUES ({number}, '{at}')")
    shutil.copy(fixture("text"), world.folder / "their.json")


def keyless(world: World) -> None:
    """Its table has no primary key."""
    world.sql("DROP TABLE orders", "CREATE TABLE orders (id INTEGER NOT NULL, customer TEXT, updated_at TEXT)")


# --- look -------------------------------------------------------------------------------------------------------------

case("poller", "behind", "")
case("poller-nowhere", nowhere, "")
case("poller-typo", "behind", "stauts")
case("status-verbose", "failing", "status orders -v")
case("status-working", "working", "status orders -v")
case("status-refused", "behind", "status order")
case("status-nowhere", nowhere, "status")
case("watch", "behind", "watch orders --count 1")
case("watch-refused", "behind", "watch --interval fast")
case("health-strict", "paused", "health --strict")
case("health-refused", "behind", "health order")
case("check", "behind", "check orders")
case("check-verbose", "behind", "check orders -v")
case("check-refused", "other_source", "check orders")
case("peek", "behind", "peek orders")
case("peek-nothing", "idle", "peek orders")
case("peek-refused", "behind", "peek orders -n 0")
case("history", cancelled, "history orders")
case("history-nothing", "new", "history orders")
case("history-refused", "behind", "history order")
case("dashboard-refused", nowhere, "dashboard")

# --- change -----------------------------------------------------------------------------------------------------------

case("pause", "behind", "pause orders --reason migration --yes")
case("pause-verbose", "behind", "pause orders --yes -v")
case("pause-asked", "working", "pause orders", answer="n")
case("pause-preview", "working", "pause orders --dry-run")
case("pause-again", "paused", "pause orders --yes")
case("pause-again-preview", "paused", "pause orders --dry-run")
case("pause-refused", "new", "pause orders --yes")
case("resume", "halted", "resume orders --yes")
case("resume-preview", "paused", "resume orders --dry-run")
case("resume-refused", "behind", "resume orders")
case("resume-nothing-preview", "behind", "resume orders --dry-run")
case("cancel", "working", "cancel orders --no-wait --yes")
case("cancel-preview", "working", "cancel orders --dry-run")
case("cancel-refused", "idle", "cancel orders --yes")
case("reset", "behind", "reset orders --to beginning --yes")
case("reset-here", "behind", "reset orders --to here --yes")
case("reset-asked", "behind", "reset orders --to beginning", answer="order")
case("reset-preview", "behind", "reset orders --to '2026-04-07 09:29:57' --pk id=4 --dry-run")
case("reset-backup", cancelled, "undo orders --list", "reset orders --to backups/nothing.json --yes")
case("reset-refused", "behind", "reset orders --to '2026-04-07 09:30:30' --pk id=9 --yes")
case("reset-at-work", "working", "reset orders --to beginning --yes")
case("reset-no-value", "behind", "reset orders --to yesterday --pk id=9 --yes")
case("reset-to-beginning", "behind", "reset-to-beginning orders --yes")
case("reset-to-beginning-preview", "new", "reset-to-beginning orders --dry-run")
case("reset-to-beginning-refused", "working", "reset-to-beginning orders --yes")
case("reset-to-cursor", "behind", "reset-to-cursor orders --value '2026-04-07 09:29:57' --pk id=4 --yes")
case("reset-to-cursor-preview", "behind", "reset-to-cursor orders --value '2026-04-07 09:29:57' --pk id=4 --dry-run")
case("reset-to-cursor-refused", "behind", "reset-to-cursor orders --value '2026-04-07 09:29:57' --yes")
EXPORTED = "checkpoint export orders kept.json"
case("reset-to-checkpoint", "behind", EXPORTED, "reset-to-checkpoint orders kept.json --yes")
case("reset-to-checkpoint-preview", "behind", EXPORTED, "reset-to-checkpoint orders kept.json --dry-run")
case("reset-to-checkpoint-refused", "behind", "reset-to-checkpoint orders kept.json --yes")
case("undo", cancelled, "undo orders --yes")
case("undo-list", cancelled, "undo orders --list")
case("undo-preview", "moved", "undo orders --dry-run")
case("undo-refused", "idle", "undo orders --yes")
case("checkpoint", "behind", "checkpoint")
case("checkpoint-export", "behind", EXPORTED)
case("checkpoint-export-refused", "behind", EXPORTED, EXPORTED)
case("checkpoint-clone", "behind", "checkpoint clone orders orders-v2 --yes")
case("checkpoint-clone-preview", "behind", "checkpoint clone orders orders-v2 --dry-run")
case("checkpoint-clone-refused", "behind", "checkpoint clone orders orders --yes")
case("checkpoint-clone-unconfirmed", "behind", "checkpoint clone orders orders-v2")
case("export-checkpoint", "behind", "export-checkpoint orders kept.json")
case("clone-checkpoint", "behind", "clone-checkpoint orders orders-v2 --yes")
case("rebind", moved_table, "rebind orders --yes")
case("rebind-preview", moved_table, "rebind orders --dry-run")
case("rebind-refused", "behind", "rebind orders --yes")

# --- rows that wait ---------------------------------------------------------------------------------------------------

POISON: dict[str, Any] = {"poller": QUARANTINE}
case("quarantine", repaired, "quarantine", **POISON)
case("quarantine-several", "quarantined", "quarantine")
case("quarantine-named", "quarantined", "quarantine orders")
case("quarantine-list", repaired, "quarantine list orders", **POISON)
case("quarantine-list-nothing", "behind", "quarantine list orders")
case("quarantine-list-refused", "behind", "quarantine list order")
case("quarantine-replay", repaired, "quarantine replay orders --all --yes", **POISON)
case("quarantine-replay-preview", repaired, "quarantine replay orders --all --dry-run", **POISON)
case("quarantine-replay-refused", repaired, "quarantine replay orders --yes", **POISON)
case("quarantine-discard", repaired, "quarantine discard orders --all --yes", **POISON)
case("quarantine-discard-preview", repaired, "quarantine discard orders --all --dry-run", **POISON)
case("quarantine-discard-refused", repaired, "quarantine discard orders 12 --yes", **POISON)
case("quarantine-show", repaired, "quarantine show orders 7eb9", **POISON)
case("quarantine-show-refused", repaired, "quarantine show orders --id 5d41402abc4b2a76", **POISON)
case(
    "quarantine-show-settled", repaired, "quarantine discard orders 7eb9 --yes", "quarantine show orders 7eb9", **POISON
)
case("quarantine-show-several", repaired, "quarantine show orders 7", **POISON)
case("quarantine-show-no-row", repaired, "quarantine show orders", **POISON)
case("quarantine-replay-row", repaired, "quarantine replay orders 7eb9 --yes", **POISON)
case("quarantine-discard-row", repaired, "quarantine discard orders 7eb9 71e --dry-run", **POISON)
case("quarantine-add", "failing", "quarantine add orders --pk id=5 --yes")
case("quarantine-add-preview", "failing", "quarantine add orders --pk id=5 --dry-run")
case("quarantine-add-refused", "failing", "quarantine add orders --pk id=2 --yes")

# --- work and set up --------------------------------------------------------------------------------------------------

case("run", "behind", "run orders --once")
case("run-nothing", "idle", "run orders --once")
case("run-failing", "failing", "run orders --once")
case("run-refused", "paused", "run orders --once")
case("run-at-work", "working", "run orders --once")
case("dispatch-refused", "behind", "dispatch --once")
case("backfill", ran, f"backfill orders {DAY} --as {AGAIN} --yes")
case("backfill-preview", ran, f"backfill orders {DAY} --as {AGAIN} --dry-run")
case("backfill-verbose", ran, f"backfill orders {DAY} --as {AGAIN} --parallel 2 --dry-run -v")
case("backfill-again", "finished", f"backfill orders {DAY} --as {AGAIN} --yes")
case("backfill-refused", ran, "backfill orders --from 2026-04-07 --to 2026-04-08 --yes")
case("recheck", passed, "recheck orders")
case("recheck-redeliver", passed, "recheck orders --redeliver --yes")
case("recheck-unconfirmed", passed, "recheck orders --redeliver")
case("recheck-refused", "behind", "recheck orders")
case("init", empty, "init --url sqlite:///shop.db --table orders --yes")
case("init-refused", "behind", "init --url sqlite:///shop.db --table orders --yes")
IMPORT = "checkpoint import azure-functions-db their.json --name orders"
case("checkpoint-import", of_another_library, f"{IMPORT} --yes")
case("checkpoint-import-preview", of_another_library, f"{IMPORT} --dry-run")
case("checkpoint-import-refused", "behind", f"{IMPORT} --yes")
case("import", of_another_library, "import azure-functions-db their.json --name orders --yes")
case("capture", "behind", "capture orders --install --yes", "capture orders --verify")
case("capture-asked", "behind", "capture orders --install", answer="n")
case("capture-preview", "behind", "capture orders --install --dry-run")
case("capture-removed", "behind", "capture orders --install --yes", "capture orders --remove --yes")
case("capture-refused", keyless, "capture orders --install --yes")
case("prune-refused", "behind", "prune orders --yes")
case("schema-export", "behind", "schema export")
case("schema-export-refused", "behind", "schema export --check")
case("sink-ddl", "behind", "sink ddl sqlite:///target.db")
case("sink-ddl-refused", "behind", "sink ddl target.db")
