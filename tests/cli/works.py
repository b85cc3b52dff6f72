"""Commands that do work, what is there before them, and what their handler notes: for the tests that kill them."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from poller.model.document import decode
from tests.cli.crashes import Embedded, Place
from tests.cli.project import Project
from tests.resilience.faults.proxy import FaultProxy
from tests.support.schemas import validator
from tests.support.waiting import waits

LEDGER = """
import os, signal
from pathlib import Path
HERE = Path(__file__).parent
taken = 0

def handle(batch):
    global taken
    for row in batch:
        if (HERE / "poison").exists() and row["id"] == 6:
            raise ValueError("no such customer")
        with (HERE / "ledger").open("a") as out:
            facts = batch.poller_name, batch.batch_id, batch.fencing_token, row["id"], row["updated_at"]
            print(*facts, sep="|", file=out)
        taken += 1
        if taken == int(os.environ.get("DIE_AFTER_ROWS", 0)):
            signal.raise_signal(signal.SIGKILL)
"""
BATCH = 3
HALTS = "max_attempts = 2\non_poison = 'halt'\nretry_backoff = '10ms'"
"""A poller that a poison row halts before long."""
ROWS = 8
POISON = 6
"""The row that the poison of a test makes fail."""
STAMP = "2026-01-01 00:00:{:02d}"
RANGE = ("--from", STAMP.format(1), "--to", STAMP.format(ROWS + 1), "--yes")
LATER = 600
"""Seconds: longer than a lease and its margin."""


@dataclass(frozen=True)
class Taken:
    """A row as a handler took it."""

    poller: str
    batch: str
    token: int
    id: int
    version: str


@dataclass(frozen=True)
class Work:
    """A command that does work.

    Attributes:
        name: its id. prepare: what is there first. ids: the rows that must be delivered. parts: how many documents of
        its own it has. between: what happens to the table after the kill. again: what a third run says that has
        nothing to do, and nothing to deliver. untouched: documents that it leaves as they are.
    """

    name: str
    command: tuple[str, ...]
    prepare: Callable[[Site], object]
    ids: frozenset[int] = frozenset(range(1, ROWS + 1))
    between: Callable[[Site], object] = lambda _: None
    done: Callable[[Site], object] = lambda _: None
    untouched: tuple[str, ...] = ()


@dataclass
class Site:
    """Where it is done: a store, a table, and the handler's ledger.

    Attributes:
        proxy: whose clock decides when a lease has ended, where the store is Azurite.
    """

    project: Project
    place: Place
    proxy: FaultProxy | None = None

    # --- the table -------------------------------------------------------------------------------------------------

    def put(self, *ids: int, second: int | None = None) -> None:
        """Rows of these ids, each of a second of its own, or all of one."""
        rows = [(n, STAMP.format(n if second is None else second)) for n in ids]
        self.project.execute("INSERT OR REPLACE INTO orders VALUES (?, ?)", *rows)

    # --- the ledger ------------------------------------------------------------------------------------------------

    def taken(self) -> list[Taken]:
        lines = [line.split("|") for line in self.project.lines("ledger")]
        return [Taken(poller, batch, int(token), int(id_), version) for poller, batch, token, id_, version in lines]

    # --- the world -------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Remember the table and the store; the ledger begins now."""
        folder = self.project.folder
        (folder / "ledger").unlink(missing_ok=True)
        shutil.copyfile(folder / "shop.db", folder / "kept-shop.db")
        if isinstance(self.place, Embedded) and not (folder / "state.db").exists():
            sqlite3.connect(folder / "state.db").close()
        self.place.keep()

    def restore(self) -> None:
        folder = self.project.folder
        (folder / "ledger").unlink(missing_ok=True)
        shutil.copyfile(folder / "kept-shop.db", folder / "shop.db")
        if self.proxy is not None:
            self.proxy.clock.reset()
        self.place.restore()

    def later(self) -> None:
        """Every lease has ended that nobody renews."""
        if self.proxy is not None:
            self.proxy.clock.step(LATER)
            return
        with closing(sqlite3.connect(self.project.folder / "state.db")) as db, db:
            if db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'poller_documents'").fetchone() != (0,):
                db.execute(
                    "UPDATE poller_documents SET modified_at = strftime('%Y-%m-%dT%H:%M:%f', modified_at, ?)",
                    (f"-{LATER} seconds",),
                )

    def documents(self) -> dict[str, bytes]:
        """The state documents by poller; each can be read, and holds to its schema."""
        store, found = self.place.store, {}
        for name in list(store.names("state/shop/")):
            poller = name.removeprefix("state/shop/").removesuffix(".json")
            body = self.place.body(poller)
            assert body is not None
            decode(body, location=name, poller_name=poller)
            validator("state").validate(json.loads(body))
            found[poller] = body
        return found

    def kill_after_rows(self, count: int, *arguments: str) -> None:
        """The command, killed by its handler once it took so many rows."""
        forge = self.place.forge
        forge.environ = {**self.project.environ, "DIE_AFTER_ROWS": str(count)}
        try:
            assert forge.run(*arguments) == -signal.SIGKILL, forge.err
            assert len(self.taken()) >= count, "parts side by side take a row more before the process is gone"
        finally:
            forge.environ = self.project.environ
        if self.proxy is not None:
            self.proxy.settle()


# --- the commands --------------------------------------------------------------------------------------------------


def never_ran(site: Site) -> None:
    site.put(*range(1, ROWS + 1))


def was_resumed(site: Site) -> None:
    """With an operator's change that is not in the audit trail yet."""
    site.put(1)
    site.place.run("run", "orders", "--once")
    site.place.run("pause", "orders", "--yes")
    site.place.run("resume", "orders", "--yes")
    site.put(*range(2, ROWS + 1))


def one_changes(site: Site) -> None:
    """A row of the first batch has a later version."""
    site.put(2, second=30)


def delivered(site: Site) -> None:
    site.put(*range(1, ROWS + 3))
    site.place.run("run", "orders", "--once")


def halted(site: Site) -> str:
    """A backfill that halted in its second batch; its name."""
    delivered(site)
    (site.project.folder / "poison").touch()
    assert site.place.forge.run("backfill", "orders", *RANGE) == 1
    ((name, body),) = ((name, body) for name, body in site.documents().items() if name != "orders")
    assert json.loads(body)["control"]["halted"] is True
    (site.project.folder / "poison").unlink()
    return name


def begun(site: Site) -> None:
    """A backfill that failed in its second batch, and has tries left."""
    site.place.run("resume", halted(site), "--yes")


def late(site: Site) -> None:
    """Rows that appear under the cursor."""
    text = (site.project.folder / "poller.toml").read_text()
    site.project.write(text.replace("max_attempts = 2", 'max_attempts = 2\naudit_window = "2h"'))
    site.put(*range(1, 20, 9))
    site.place.run("run", "orders", "--once")
    site.put(*range(21, 29), second=5)


def nothing_is_late(site: Site) -> None:
    assert site.place.run("recheck", "orders", "--json")["late_rows"] == 0


def finished(site: Site) -> None:
    assert site.place.run("status", "orders", "--json")["backfills"] == []


def rows_wait(site: Site) -> None:
    """Three rows that were passed without success."""
    site.put(*range(1, ROWS + 1), second=0)
    site.place.run("run", "orders", "--once")
    waits(site.place.store, failed=[3], pending=[2, 5])


def none_waits(site: Site) -> None:
    found = site.place.run("quarantine", "list", "orders", "--json")
    assert (found["aside"], found["pending"]) == ([], [])


BACKFILL = ("backfill", "orders", *RANGE)
WORKS = {
    work.name: work
    for work in (
        Work("run", ("run", "orders", "--once"), never_ran, between=one_changes),
        Work("run-resumed", ("run", "orders", "--once"), was_resumed, frozenset(range(2, ROWS + 1)), one_changes),
        Work("backfill", BACKFILL, delivered, done=finished, untouched=("orders",)),
        Work("backfill-parallel", (*BACKFILL, "--parallel", "2"), delivered, done=finished, untouched=("orders",)),
        Work(
            "backfill-resumed",
            BACKFILL,
            begun,
            frozenset(range(POISON, ROWS + 1)),
            done=finished,
            untouched=("orders",),
        ),
        Work(
            "backfill-retry",
            (*BACKFILL, "--retry"),
            halted,
            frozenset(range(POISON, ROWS + 1)),
            done=finished,
            untouched=("orders",),
        ),
        Work(
            "recheck",
            ("recheck", "orders", "--redeliver", "--yes"),
            late,
            frozenset(range(21, 29)),
            done=nothing_is_late,
        ),
        Work(
            "replay",
            ("quarantine", "replay", "orders", "--all", "--yes"),
            rows_wait,
            frozenset({2, 3, 5}),
            done=none_waits,
        ),
    )
}
