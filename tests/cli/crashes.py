"""Places where commands are killed or held: the embedded store at each of its calls, and Azurite at each request."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from azure.storage.blob import ContainerClient

from poller.ports import Found, StateStore
from poller.stores import BlobStore, SqlStore
from tests.cli.forge import Forge
from tests.cli.project import Ended, Project
from tests.resilience.faults import fault
from tests.resilience.faults.fault import Fault
from tests.resilience.faults.proxy import FaultProxy
from tests.resilience.faults.request import Request

VOLATILE = {
    "write_ids",
    "released_at",
    "acquired_at",
    "heartbeat_at",
    "expires_at",
    "updated_at",
    "at",
    "owner_id",
    "since",
}


class Place(ABC):
    """A project, its store, and a way to kill or hold commands in it.

    Attributes:
        store: a look of our own at what stands there.
        beside: what others who work there need in their environment, so that nothing of theirs is held.
        rows: the URL of the PostgreSQL database that has the rows, where they do not stand in SQLite.
        proxy: what the requests pass, where they go to Azurite.
    """

    store: StateStore
    proxy: FaultProxy | None = None

    def __init__(self, project: Project, forge: Forge) -> None:
        self.project = project
        self.forge = forge
        self.beside: dict[str, str] = {}
        self.rows: str | None = None
        forge.folder, forge.environ = project.folder, project.environ

    def run(self, *arguments: str) -> Any:
        """Undisturbed. Its output, where that is JSON."""
        code = self.forge.run(*arguments)
        assert code == 0, self.forge.err
        return json.loads(self.forge.out) if "--json" in arguments else None

    def insert(self, count: int) -> None:
        """More rows of `orders`."""
        self.project.insert(count)
        if self.rows is not None:
            copy_rows(self.project, self.rows, "orders")

    def body(self, poller: str) -> bytes | None:
        return self.stored(f"state/shop/{poller}.json")

    def stored(self, name: str) -> bytes | None:
        """What stands under a name in the store."""
        found = self.store.read(name)
        return found.body if isinstance(found, Found) else None

    def replace(self, poller: str, body: bytes) -> None:
        """Other bytes for the state document, as a writer would put them there now."""
        name = f"state/shop/{poller}.json"
        found = self.store.read(name)
        assert isinstance(found, Found)
        self.store.write(name, body, if_tag=found.tag)

    def backups(self, poller: str) -> list[bytes]:
        found = [self.store.read(name) for name in self.store.names(f"backups/shop/{poller}/")]
        return [one.body for one in found if isinstance(one, Found)]

    def history(self, poller: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.run("history", poller, "--json")["records"]
        return found

    @abstractmethod
    def steps(self, *arguments: str) -> list[str]:
        """What the command does when nobody kills it, step by step; it must end with 0."""

    @contextmanager
    def held(self, step: int, when: str, *arguments: str) -> Iterator[Callable[[], Ended]]:
        """The command, held there for as long as the block does not call what it is given: that lets it go, and returns
        how it ended."""
        process = self._hold(step, when, *arguments)
        ended = None

        def let_go() -> Ended:
            nonlocal ended
            self._let_go(process)
            ended = Ended(self.forge.wait(), self.forge.out, self.forge.err)
            return ended

        try:
            yield let_go
        finally:
            if ended is None:
                self._kill(process)

    def kill(self, step: int, when: str, *arguments: str) -> None:
        """The command, killed there. It must not have ended by itself."""
        assert self._kill(self._hold(step, when, *arguments)) == -signal.SIGKILL, self.forge.err

    def _kill(self, process: int) -> int:
        """Its exit code."""
        os.kill(process, signal.SIGKILL)
        return self.forge.wait()

    @abstractmethod
    def _hold(self, step: int, when: str, *arguments: str) -> int:
        """Its process, once it is held."""

    @abstractmethod
    def _let_go(self, process: int) -> None: ...

    @abstractmethod
    def keep(self) -> None:
        """Remember what stands there."""

    @abstractmethod
    def restore(self) -> None:
        """Put back what is remembered."""

    @abstractmethod
    def put(self, poller: str, body: bytes | None) -> None:
        """As somebody would by hand: other bytes for the state document, or none."""

    def close(self) -> None:
        self.store.close()


class Embedded(Place):
    """On SQLite: dead before a call of the store, or after it."""

    def __init__(self, project: Project, forge: Forge) -> None:
        super().__init__(project, forge)
        self.store = SqlStore("sqlite:///state.db", directory=project.folder)

    def steps(self, *arguments: str) -> list[str]:
        self.run(*arguments)
        return self.forge.steps

    def kill(self, step: int, when: str, *arguments: str) -> None:
        assert self.forge.run(*arguments, step=step, when=when) == -signal.SIGKILL, self.forge.err

    def _hold(self, step: int, when: str, *arguments: str) -> int:
        process = self.forge.start(*arguments, step=step, when=f"stop-{when}")
        self.forge.await_stopped()
        return process

    def _let_go(self, process: int) -> None:
        os.kill(process, signal.SIGCONT)

    def keep(self) -> None:
        folder = self.project.folder
        (folder / "kept.db").unlink(missing_ok=True)
        with closing(sqlite3.connect(folder / "state.db")) as now, closing(sqlite3.connect(folder / "kept.db")) as kept:
            now.backup(kept)

    def restore(self) -> None:
        self.store.close()
        folder = self.project.folder
        for name in ("state.db", "state.db-wal", "state.db-shm"):
            (folder / name).unlink(missing_ok=True)
        shutil.copyfile(folder / "kept.db", folder / "state.db")

    def put(self, poller: str, body: bytes | None) -> None:
        name = f"state/shop/{poller}.json"
        with closing(sqlite3.connect(self.project.folder / "state.db")) as db, db:
            if body is None:
                db.execute("DELETE FROM poller_documents WHERE name = ?", (name,))
            else:
                db.execute("UPDATE poller_documents SET body = ?, tag = 'x' WHERE name = ?", (body.decode(), name))


class HoldAt:
    """Holds the n-th request."""

    def __init__(self, number: int, make: Callable[[str], Fault]) -> None:
        self._number = number
        self._make = make

    def __call__(self, request: Request, /) -> Fault | None:
        return self._make("here") if request.number == self._number else None


class OnAzurite(Place):
    """On blobs. `before`: the request lands after its sender is dead. `after`: it landed, and nobody hears of it."""

    def __init__(self, project: Project, forge: Forge, proxy: FaultProxy, connection: str, container: str) -> None:
        super().__init__(project, forge)
        self.store = BlobStore.from_connection_string(connection, container=container)
        self.beside = {"AzureWebJobsStorage": connection}
        self._blobs = ContainerClient.from_connection_string(connection, container)
        self.proxy = self._proxy = proxy
        self._kept: dict[str, bytes] = {}

    def steps(self, *arguments: str) -> list[str]:
        self._proxy.reset()
        self.run(*arguments)
        self._proxy.settle()
        return [f"{'write' if r.request.is_blob_write else 'ask'} {r.request.blob}" for r in self._proxy.requests]

    def _kill(self, process: int) -> int:
        code = super()._kill(process)
        self._let_go(process)
        self._proxy.settle()
        return code

    def _hold(self, step: int, when: str, *arguments: str) -> int:
        self._proxy.reset()
        self._proxy.plan = HoldAt(step, fault.hold_before if when == "before" else fault.hold_after)
        process = self.forge.start(*arguments)
        while not self._proxy.held("here"):
            if self.forge.has_ended(0.02):
                self._let_go(process)
                raise AssertionError(f"it ended with {self.forge.wait()} before step {step}: {self.forge.err}")
        return process

    def _let_go(self, process: int) -> None:
        self._proxy.release("here")
        self._proxy.plan = HoldAt(0, fault.hold_before)

    def keep(self) -> None:
        names = [blob.name for blob in self._blobs.list_blobs()]
        self._kept = {name: self._blobs.download_blob(name).readall() for name in names}

    def restore(self) -> None:
        for blob in self._blobs.list_blobs():
            self._blobs.delete_blob(blob.name)
        for name, body in self._kept.items():
            if name.endswith(".jsonl"):
                for line in body.decode().splitlines():
                    self.store.append(name, line)
            else:
                self.store.write(name, _released_now(body) if name.startswith("state/") else body, if_tag=None)

    def put(self, poller: str, body: bytes | None) -> None:
        name = f"state/shop/{poller}.json"
        if body is None:
            self._blobs.delete_blob(name)
        else:
            self._blobs.upload_blob(name, body, overwrite=True)

    def close(self) -> None:
        super().close()
        self._blobs.close()


def copy_rows(project: Project, url: str, *tables: str) -> None:
    """What stands in the project's tables, to tables of the same names in PostgreSQL."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for table in tables:
            made = f"CREATE TABLE IF NOT EXISTS {table} (id int PRIMARY KEY, updated_at timestamp NOT NULL)"
            connection.execute(sa.text(made))
            for number, at in project.execute(f"SELECT id, updated_at FROM {table}"):
                row = f"INSERT INTO {table} VALUES ({number}, '{at}') ON CONFLICT DO NOTHING"
                connection.execute(sa.text(row))
    engine.dispose()


def _released_now(body: bytes) -> bytes:
    """An older copy put back frees nothing (protocol 3), so it must be released by its own word."""
    try:
        state = json.loads(body)
    except ValueError:
        return body  # one that cannot be read holds no lease
    state["lease"]["released_at"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    return json.dumps(state).encode()


def lasting(body: bytes) -> dict[str, Any]:
    """What a state document says, but for the moments and the random ids that every write makes anew."""

    def steady(value: Any) -> Any:
        if isinstance(value, list):
            return [steady(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {key: bool(one) if key in VOLATILE else steady(one) for key, one in value.items()}

    state: dict[str, Any] = steady(json.loads(body))
    state["control"]["last_change"] |= {"id": "", "backup": "", "undid": ""}
    return state


def every_moment(steps: list[str]) -> list[tuple[int, str]]:
    """Between any two steps: after the one is before the other."""
    return [(1, "before"), *((number, "after") for number, _ in enumerate(steps, 1))]


def source_changed(place: Place) -> None:
    text = (place.project.folder / "poller.toml").read_text()
    (place.project.folder / "old.toml").write_text(text)
    place.project.write(text.replace('pk_columns = ["id"]', 'pk_columns = ["id"]\nfilter = "id > 0"', 1))


def paused(place: Place) -> None:
    place.run("pause", "orders", "--yes")


@contextmanager
def placed(request: pytest.FixtureRequest, project: Project, forge: Forge, where: str, *tables: str) -> Iterator[Place]:
    """`embedded`; or `azurite`: the state on blobs behind a proxy, and these tables in PostgreSQL."""
    made: Place
    if where == "embedded":
        made = Embedded(project, forge)
        yield made
        made.close()
        return
    azurite, container = request.getfixturevalue("azurite"), request.getfixturevalue("container")
    text = (project.folder / "poller.toml").read_text()
    text = text.replace('store = "sql"', f'store = "blob"\ncontainer = "{container}"')
    rows = request.getfixturevalue("postgres_db") if tables else None
    if rows is not None:
        copy_rows(project, rows, *tables)
        text = text.replace("sqlite:///shop.db", rows)
    project.write(text)
    with FaultProxy("127.0.0.1", azurite.port) as proxy:
        project.environ["AzureWebJobsStorage"] = proxy.connection_string
        made = OnAzurite(project, forge, proxy, azurite.connection_string, container)
        made.rows = rows
        yield made
        made.close()
