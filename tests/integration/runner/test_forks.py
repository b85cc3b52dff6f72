"""A process that forks after it used a poller: parent and children go on, and share nothing (protocol 14)."""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from poller import Poller, forks
from poller.databases import samplers
from poller.handler import load
from poller.lease import Heartbeat
from poller.observability import TickFailed
from poller.ports import StateStore
from poller.runtime import SystemRuntime
from poller.sources import SqlSource
from poller.stores import BlobStore, MemoryStore, SqlStore
from poller_cli.output.events import EventPrinter
from tests.integration.runner import forked
from tests.integration.sources.tables import execute
from tests.support.azurite import Azurite
from tests.support.services import REPOSITORY

TABLE = {
    "postgres": "create table orders (id bigint primary key, updated_at timestamptz not null default now())",
    "sqlite": "create table orders (id integer primary key,"
    " updated_at text not null default (strftime('%Y-%m-%dT%H\\:%M\\:%fZ', 'now', '-1 minute')))",
}


def run(folder: Path, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """What all the processes noted."""
    ledger = folder / "ledger"
    settings = json.dumps({"isolation": "thread", **asked, "ledger": str(ledger)})
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.runner.forked", settings],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'cli'}"},
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    failed = [line["failed"] for line in lines if "failed" in line]
    assert (done.returncode, failed) == (0, []), done.stderr
    assert "Exception" not in done.stderr
    return lines


@pytest.mark.guarantee(
    "One worker at a time",
    "After a fork parent and children share no connection, no lock and no lease; a copy of a handler that was "
    "running commits nothing",
)
@pytest.mark.parametrize(
    "kind", ["blob", *(pytest.param(one, marks=pytest.mark.soak) for one in ("table", "sql", "sqlite"))]
)
def test_after_a_fork_parent_and_children_share_nothing(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The fork is in the handler: each child returns from it, with a copy of its parent's lease."""
    store: StateStore
    asked = {"source": request.getfixturevalue("sqlite_url" if kind == "sqlite" else "postgres_db")}
    if kind == "blob":
        azurite: Azurite = request.getfixturevalue("azurite")
        asked |= {"store": azurite.connection_string, "container": request.getfixturevalue("container")}
        store = BlobStore.from_connection_string(asked["store"], container=asked["container"])
    elif kind == "table":
        azurite = request.getfixturevalue("azurite")
        asked |= {"store": azurite.connection_string_with_tables, "table": azurite.table_name()}
        store = forked.store_of(asked)
    else:
        asked |= {"store": asked["source"] if kind == "sql" else f"sqlite:///{tmp_path / 'state.db'}"}
        store = SqlStore(asked["store"])
    execute(asked["source"], TABLE["sqlite" if kind == "sqlite" else "postgres"])
    numbers = ", ".join(f"({number})" for number in range(1, forked.ROWS + 1))
    execute(asked["source"], f"insert into orders (id) values {numbers}")

    noted = run(tmp_path, asked)

    batches = [(line["pid"], line["rows"]) for line in noted if "rows" in line]
    assert sorted(number for _, rows in batches for number in rows["ids"]) == list(range(1, forked.ROWS + 1))
    processes_of: defaultdict[int, set[int]] = defaultdict(set)
    for pid, rows in batches:
        processes_of[rows["token"]].add(pid)
    assert all(len(processes) == 1 for processes in processes_of.values()), "no token was two processes'"
    owners = [(line["pid"], line["owner"]) for line in noted if "owner" in line]
    assert len({owner for _, owner in owners}) == len(owners)
    assert all(f"-{pid}/" in owner for pid, owner in owners)
    left = [line["left"] for line in noted if "left" in line]
    assert sorted(left) == ["delivered", "lease_lost", "lease_lost"], "the handler's copies committed nothing"
    assert len([line for line in noted if "outcomes" in line]) == 3
    assert [line["ended"] for line in noted if "ended" in line] == [0, 0]
    found: Any = store.read("state/shop/orders.json")
    state = json.loads(found.body)
    assert state["checkpoint"]["cursor"]["tiebreaker"] == {"id": forked.ROWS}
    assert state["lease"]["fencing_token"] == max(processes_of)
    assert not [line for line in store.lines("audit/shop/orders.jsonl") if "lease_lost" in line]
    store.close()


@pytest.mark.soak
def test_a_handlers_process_stays_its_pollers_after_a_fork(sqlite_url: str, tmp_path: Path) -> None:
    execute(sqlite_url, TABLE["sqlite"])
    numbers = ", ".join(f"({number})" for number in range(1, forked.ROWS + forked.BATCH + 1))
    execute(sqlite_url, f"insert into orders (id) values {numbers}")
    state = f"sqlite:///{tmp_path / 'state.db'}"

    noted = run(tmp_path, {"source": sqlite_url, "store": state, "isolation": "process"})

    handlers: defaultdict[int, set[int]] = defaultdict(set)
    for line in noted:
        if "rows" in line:
            handlers[line["rows"]["for"]].add(line["pid"])
    assert len(handlers) == 3
    assert all(len(processes) == 1 for processes in handlers.values()), "also after the children have ended"
    assert [line["last"] for line in noted if "last" in line] == ["delivered"]


def test_a_lock_that_another_thread_held_is_free_in_a_child(sqlite_url: str) -> None:
    execute(sqlite_url, TABLE["sqlite"])
    runtime, memory = SystemRuntime(), MemoryStore()
    blobs = BlobStore.from_connection_string("UseDevelopmentStorage=true")
    source = SqlSource(sqlite_url, table="orders", cursor_column="updated_at", pk_columns=["id"])
    poller = Poller("orders", source=source, store=memory, app_name="shop", observers=[], runtime=runtime)
    poller.tick(print)
    printer = EventPrinter(json_lines=None, debug=False, quiet_errors=True)
    nobody: Any = None
    heartbeat = Heartbeat(nobody, runtime=runtime, interval=1, emit=nobody)
    locks: list[Any] = [
        runtime._guard, memory._lock, blobs._container._lock, poller._runner._busy,
        poller._runner.context.audit._writer._lock, samplers.SHARED._guard, load._importing.lock, printer._lock,
        heartbeat._judging,
    ]  # fmt: skip
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        for lock in locks:
            lock.acquire()
        held.set()
        done.wait()
        for lock in reversed(locks):
            lock.release()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends it where it waits for ever
        failed = 1
        try:
            outcome = poller.tick(print).outcome
            poller._runner.context.audit.add("note")
            printer(TickFailed(poller="orders", at=runtime.utcnow(), error_type="StoreError", error="quiet"))
            poller._runner.context.audit.settle(5)
            blobs._container.client()
            heartbeat._judging.acquire()
            samplers.SHARED._leave(samplers._Key("", "", "", "", frozenset()), "")
            load.import_handler("json:dumps", folder=Path(), key="handler")
            failed = outcome != "idle" or not memory.lines("audit/shop/orders.jsonl")
        finally:
            os._exit(failed)
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    poller.close()


EXITS = """
import os, sys
from poller import forks

parent = os.getpid()

class Session:
    def __del__(self, os=os, parent=parent):
        os.write(1, b"goodbye of the parent" if os.getpid() == parent else b"goodbye of the child; ")

class Source:
    def __init__(self):
        self.session = Session()
        forks.in_child(self.reset_after_fork)

    def reset_after_fork(self):
        forks.keep(self.session)
        self.session = None

source = Source()
if os.fork():
    os.wait()
    os.write(1, b"the parent lives; ")
    del source
sys.exit()
"""


def test_a_child_that_exits_leaves_its_parents_sessions_open() -> None:
    """Some drivers end the server's session when their connection is collected, and the end of Python collects all."""
    done = subprocess.run(
        [sys.executable, "-c", EXITS], capture_output=True, text=True, timeout=60, check=True, cwd=REPOSITORY
    )
    assert done.stdout == "the parent lives; goodbye of the parent"


@pytest.mark.parametrize("backend", ["postgresql+psycopg", "mysql+pymysql"])
def test_an_engine_of_one_connection_is_not_shared_after_a_fork(backend: str) -> None:
    """Only a database in memory is: it is in this process."""
    engine = sa.create_engine(f"{backend}://", poolclass=sa.StaticPool)
    source = SqlSource(engine, table="orders", cursor_column="id", pk_columns=["id"], cursor_time_zone="UTC")
    parents: Any = [engine.pool, threading.Event()]
    source._session.database._driver = parents[1]
    source._reset_after_fork()
    assert engine.pool is not parents[0]
    kept = [weakref.ref(thing) for thing in parents]
    parents.clear()
    assert all(thing() for thing in kept), "nor are the parent's ever collected"


def in_child(check: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        failed = 1
        try:
            failed = not check()
        finally:
            os._exit(failed)
    return os.waitpid(child, 0)[1] == 0


def test_a_sqlite_file_is_closed_before_a_fork_once_it_is_idle(sqlite_url: str, tmp_path: Path) -> None:
    """SQLite remembers per process what it has locked; a copy of that would be wrong. While a page is read ahead, the
    thread of the tick waits for it, and another one leaves the file alone."""
    execute(sqlite_url, TABLE["sqlite"])
    source = SqlSource(sqlite_url, table="orders", cursor_column="updated_at", pk_columns=["id"])
    store = SqlStore(f"sqlite:///{tmp_path / 'state.db'}")
    source.page(None, 1)
    store.read("state/shop/orders.json")
    pool = store._engine.pool
    used, over = threading.Event(), threading.Event()

    def read() -> None:
        used.set()
        over.wait(30)
        assert source._session.database.is_open

    reader = threading.Thread(target=lambda: source._guard(read))
    reader.start()
    used.wait()
    other = threading.Thread(target=lambda: in_child(lambda: True))
    other.start()
    other.join()
    assert source._session.database.is_open
    threading.Timer(0.1, over.set).start()
    assert in_child(lambda: not source._session.database.is_open)
    assert not source._session.database.is_open
    assert store._engine.pool is not pool
    store.close()


def test_a_child_makes_a_credential_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Credential:
        def __init__(self, **_: object) -> None:
            made.append(os.getpid())

        def get_token(self, *_: object) -> None: ...

    monkeypatch.setattr("azure.identity.DefaultAzureCredential", Credential)
    blobs = BlobStore.from_identity("https://shop.blob.core.windows.net")

    def again() -> bool:
        blobs._container.client()
        return made[-1] == os.getpid()

    assert again()
    assert in_child(again)
    blobs.close()
    assert again()
    assert len(made) == 1


def test_pollers_that_are_dropped_leave_nothing_to_begin_anew(sqlite_url: str, tmp_path: Path) -> None:
    def known() -> set[weakref.ref[Any]]:
        gc.collect()
        return {*forks._before.keyrefs(), *forks._in_child.keyrefs()}

    before = known()
    made = [
        Poller(
            f"orders{number}",
            source=SqlSource(sqlite_url, table="orders", cursor_column="updated_at", pk_columns=["id"]),
            store=SqlStore(f"sqlite:///{tmp_path / 'state.db'}"),
            app_name="shop",
            observers=[],
        )
        for number in range(20)
    ]
    assert len(known() - before) >= 20 * 4
    made.clear()
    assert known() <= before, "what other tests made may go meanwhile"


def test_a_poller_is_not_sent_to_another_process(sqlite_url: str) -> None:
    source = SqlSource(sqlite_url, table="orders", cursor_column="updated_at", pk_columns=["id"])
    poller = Poller("orders", app_name="shop", source=source, store=MemoryStore())
    with poller, pytest.raises(TypeError, match=r"orders: a Poller cannot be sent to another process\. Make one"):
        pickle.dumps(poller)
