"""A command that does work, killed by SIGKILL at every step, and the same command once more: every row is delivered,
twice only those of the batch in hand, in order within a key, and the document can always be read.

The steps are those of test_change_crashes.py, and the rows that the handler takes. What would be waited for after a
kill, the end of the lease, is brought about by the store's clock.
"""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import pytest

from poller.model.document import decode
from tests.cli.conftest import Project
from tests.cli.crashes import Embedded, OnAzurite, Place
from tests.cli.forge import Forge
from tests.cli.test_schemas import validator
from tests.faults.proxy import FaultProxy

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
ROWS = 8
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
        proxy: whose clock tells when a lease has ended, where the store is Azurite.
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
            assert len(self.taken()) == count
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


def halted(site: Site) -> None:
    delivered(site)
    (site.project.folder / "poison").touch()
    for _ in range(2):
        assert site.place.forge.run("backfill", "orders", *RANGE) == 1
    (body,) = (body for name, body in site.documents().items() if name != "orders")
    assert json.loads(body)["control"]["halted"] is True
    (site.project.folder / "poison").unlink()


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


BACKFILL = ("backfill", "orders", *RANGE)
WORKS = {
    work.name: work
    for work in (
        Work("run", ("run", "orders", "--once"), never_ran, between=one_changes),
        Work("run-resumed", ("run", "orders", "--once"), was_resumed, frozenset(range(2, ROWS + 1)), one_changes),
        Work("backfill", BACKFILL, delivered, done=finished, untouched=("orders",)),
        Work("backfill-parallel", (*BACKFILL, "--parallel", "2"), delivered, done=finished, untouched=("orders",)),
        Work(
            "backfill-retry",
            (*BACKFILL, "--retry"),
            halted,
            frozenset(range(4, ROWS + 1)),
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
    )
}


@pytest.fixture
def site(request: pytest.FixtureRequest, project: Project, forge: Forge) -> Iterator[Site]:
    project.configure("orders", handlers=LEDGER, poller=f"batch_size = {BATCH}\nmax_attempts = 2")
    if request.param == "embedded":
        made: Place = Embedded(project, forge)
        yield Site(project, made)
        made.close()
        return
    azurite, container = request.getfixturevalue("azurite"), request.getfixturevalue("container")
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('store = "sql"', f'store = "blob"\ncontainer = "{container}"'))
    with FaultProxy("127.0.0.1", azurite.port) as proxy:
        project.environ["AzureWebJobsStorage"] = proxy.connection_string
        made = OnAzurite(project, forge, proxy, azurite.connection_string, container)
        made.store.append("audit/shop/nobody.jsonl", "the container is there")
        yield Site(project, made, proxy)
        made.close()


Moments = Callable[[list[str]], list[tuple[int, str]]]


def telling_moments(steps: list[str]) -> list[tuple[int, str]]:
    """After the first writes of the document, and the last."""
    writes = [number for number, step in enumerate(steps, 1) if step.startswith("write state/")]
    return [(number, "after") for number in (*writes[:2], writes[-1])]


def every_moment(steps: list[str]) -> list[tuple[int, str]]:
    """Between any two steps: after the one is before the other."""
    return [(1, "before"), *((number, "after") for number, _ in enumerate(steps, 1))]


def killed_at(site: Site, work: Work, moments: Moments, rows: Sequence[int]) -> None:
    work.prepare(site)
    site.keep()
    steps = site.place.steps(*work.command)
    assert sorted(one.id for one in site.taken()) == sorted(work.ids), "undisturbed it delivers each row once"
    kills: list[tuple[str, Callable[[], None]]] = [
        (f"killed {when} step {step}, {steps[step - 1]}", partial(site.place.kill, step, when, *work.command))
        for step, when in moments(steps)
    ]
    kills += [(f"killed after {count} rows", partial(site.kill_after_rows, count, *work.command)) for count in rows]
    twice = 0
    for at, kill in kills:
        site.restore()
        untouched = {name: site.place.body(name) for name in work.untouched}
        kill()
        holds(site, work, untouched, at)
        twice += len(site.taken()) > len(work.ids)
    assert twice or not rows, "some kill was in mid-batch"
    work.done(site)
    taken = site.taken()
    assert site.place.forge.run(*work.command) == 0
    assert site.taken() == taken, "what is done is not done again"


def holds(site: Site, work: Work, untouched: dict[str, bytes | None], at: str) -> None:
    """The laws, after a kill."""
    first = site.taken()
    site.documents()
    work.between(site)
    site.later()
    forge = site.place.forge
    assert forge.run(*work.command) == 0, (at, forge.err)
    taken = site.taken()
    second = taken[len(first) :]

    assert {one.id for one in taken} == work.ids, at
    changed = dict(site.project.execute("SELECT id, updated_at FROM orders"))
    assert {(one.id, one.version) for one in taken} >= {(id_, changed[id_]) for id_ in work.ids}, at
    last = {one.poller: one.batch for one in first}
    in_hand = {(one.poller, one.id, one.version) for one in first if one.batch == last[one.poller]}
    twice = {(one.poller, one.id, one.version) for one in first} & {(one.poller, one.id, one.version) for one in second}
    assert twice <= in_hand, at
    for run in (first, second):
        assert len(set(run)) == len(run), at
        for poller in {one.poller for one in run}:
            versions = [(one.version, one.id) for one in run if one.poller == poller]
            assert versions == sorted(versions), at
    for id_ in work.ids:
        versions_of_one = [one.version for one in taken if one.id == id_]
        assert versions_of_one == sorted(versions_of_one), at
    for poller in {one.poller for one in first} & {one.poller for one in second}:
        assert max(o.token for o in first if o.poller == poller) < min(o.token for o in second if o.poller == poller), (
            at
        )
    documents = site.documents()
    for name, body in documents.items():
        # Where nothing was left to do, nobody took the lease that the dead one had; it has ended.
        assert not second or json.loads(body)["lease"]["owner_id"] is None, (at, name)
    assert {name: documents[name] for name in untouched} == untouched, at


@pytest.mark.parametrize(
    ("site", "name", "rows"),
    [
        ("embedded", "run", (BATCH + 1,)),
        ("azurite", "backfill", ()),
    ],
    indirect=["site"],
)
def test_killed_after_a_write_of_the_document(site: Site, name: str, rows: Sequence[int]) -> None:
    killed_at(site, WORKS[name], telling_moments, rows)


EVERY_ROW = tuple(range(1, ROWS + 1))


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("site", "name", "rows"),
    [
        ("embedded", "run", EVERY_ROW),
        ("embedded", "run-resumed", (1,)),
        ("embedded", "backfill", EVERY_ROW),
        ("embedded", "backfill-parallel", (1, ROWS)),
        ("embedded", "backfill-retry", (1,)),
        ("embedded", "recheck", EVERY_ROW),
        ("azurite", "run", (BATCH,)),
        ("azurite", "backfill", (BATCH,)),
        ("azurite", "recheck", (BATCH,)),
    ],
    indirect=["site"],
)
def test_killed_between_any_two_steps_and_after_any_row(site: Site, name: str, rows: Sequence[int]) -> None:
    killed_at(site, WORKS[name], every_moment, rows)


# --- init ----------------------------------------------------------------------------------------------------------


INIT = ("init", "--url", "sqlite:///shop.db", "--table", "orders", "--app", "shop", "--yes")
FILES = ("poller.toml", "handlers.py")


@pytest.mark.parametrize("force", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["new", "force"])
def test_a_killed_init_leaves_no_half_file_and_goes_on(project: Project, forge: Forge, force: bool) -> None:
    project.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    project.insert(2)
    forge.folder, forge.environ = project.folder, project.environ
    command = (*INIT, "--force") if force else INIT

    def texts() -> list[str | None]:
        paths = [project.folder / name for name in FILES]
        return [path.read_text() if path.exists() else None for path in paths]

    def put_back() -> None:
        for name in FILES:
            (project.folder / name).unlink(missing_ok=True)
            if force:
                (project.folder / name).write_text("precious")

    put_back()
    before = texts()
    assert forge.run(*command) == 0, forge.err
    whole, steps = texts(), forge.steps
    writing = [number for number, step in enumerate(steps, 1) if step.startswith("write_text")]
    outcomes = set()
    for step, when in [*every_moment(steps), *((number, "within") for number in writing)]:
        put_back()
        assert forge.run(*command, step=step, when=when) == -signal.SIGKILL, forge.err
        left = texts()
        outcomes.add(tuple(one == new for one, new in zip(left, whole, strict=True)))
        assert all(one in (old, new) for one, old, new in zip(left, before, whole, strict=True)), (step, when)
        # Where all of it was there already, nothing is left to do.
        assert forge.run(*command) == (3 if left == whole and not force else 0), (step, when, forge.err)
        assert texts() == whole, (step, when)
    assert outcomes == {(False, False), (False, True), (True, True)}, "the configuration comes last"
    assert forge.run("run", "orders", "--once") == 0, forge.err


def test_an_init_that_was_killed_in_between_overwrites_no_handler_that_was_changed_since(
    project: Project, forge: Forge
) -> None:
    project.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    forge.folder, forge.environ = project.folder, project.environ
    assert forge.run(*INIT) == 0, forge.err
    (project.folder / "poller.toml").unlink()
    mine = (project.folder / "handlers.py").read_text() + "\nmine = True\n"
    (project.folder / "handlers.py").write_text(mine)
    assert forge.run(*INIT) == 3
    assert "handlers.py exists already" in forge.err
    assert (project.folder / "handlers.py").read_text() == mine
    assert not (project.folder / "poller.toml").exists()
