"""The console in this process, where a start per command would take too long; and a look at what it changed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from poller.stores import SqlStore
from poller_cli.main import execute
from tests.cli.project import Ended, Project, files, put_back
from tests.support.schemas import validator

STATE = "state/shop/orders.json"


class Console:
    """Runs commands of a project; only its configuration's folder is used, never the working directory."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def run(self, *arguments: str) -> Ended:
        """As a process without a terminal would, but in this one."""
        out, err = io.StringIO(), io.StringIO()
        environ = {"POLLER_CONFIG": str(self.project.folder / "poller.toml"), **self.project.environ}
        with (
            patch.dict(os.environ, environ),
            patch("sys.stdin", io.StringIO()),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = execute(list(arguments))
        # A handler's own, in the record of its failure, begins with its poller's name.
        assert not any(line.startswith("Traceback") for line in err.getvalue().splitlines())
        return Ended(code, out.getvalue(), err.getvalue())

    def done(self, *arguments: str) -> dict[str, Any]:
        """Its JSON, held against its schema; it must have ended with 0."""
        ended = self.run(*arguments, "--json")
        assert ended.code == 0, ended.err
        validator("change").validate(ended.json)
        found: dict[str, Any] = ended.json
        return found

    def undo(self, output: dict[str, Any]) -> dict[str, Any]:
        """The command that the output of another names, as it stands there."""
        program, *arguments = shlex.split(output["undo"])
        assert program == "poller"
        return self.done(*arguments, "--yes")

    def refused(self, code: int, *arguments: str, says: str = "") -> str:
        """Its one line; it must have ended with this code, and changed nothing."""
        before = self.everything()
        ended = self.run(*arguments)
        assert ended.code == code, (ended.out, ended.err)
        assert says in ended.error
        assert self.everything() == before
        return ended.error

    # --- the store -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def store(self) -> Iterator[SqlStore]:
        store = SqlStore("sqlite:///state.db", directory=self.project.folder)
        try:
            yield store
        finally:
            store.close()

    def state(self, name: str = STATE) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.document(name))
        return found

    def document(self, name: str = STATE) -> str:
        ((body,),) = self.project.execute(
            f"SELECT body FROM poller_documents WHERE name = '{name}'", database="state.db"
        )
        return str(body)

    def put(self, body: str, name: str = STATE) -> None:
        """As somebody would by hand."""
        self.project.execute(
            "UPDATE poller_documents SET body = ?, tag = ? WHERE name = ?",
            (body, os.urandom(8).hex(), name),
            database="state.db",
        )

    def edit(self, **parts: Any) -> None:
        """Change parts of the document, a level deep."""
        state = self.state()
        for name, value in parts.items():
            state[name] = {**state[name], **value} if isinstance(value, dict) else value
        self.put(json.dumps(state))

    def everything(self) -> list[tuple[Any, ...]]:
        """Every document and every line of every log."""
        if not (self.project.folder / "state.db").exists():
            return []
        try:
            documents = self.project.execute("SELECT name, tag, body FROM poller_documents", database="state.db")
            return documents + self.project.execute("SELECT name, line FROM poller_log", database="state.db")
        except Exception:  # noqa: BLE001 - no tables yet
            return []

    def names(self, prefix: str) -> list[str]:
        with self.store() as store:
            return list(store.names(prefix))


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


# --- a shop that works ------------------------------------------------------------------------------------------


def ran(project: Project, rows: int = 5) -> Console:
    """A poller `orders` that delivered so many rows."""
    project.configure("orders")
    project.insert(rows)
    console = Console(project)
    assert console.run("run", "--once").code == 0
    return console


def again(project: Project, made: Callable[[Project], Console] = ran) -> Console:
    """As `made` leaves it: the first case makes it, and the next ones put its files back."""
    if project.kept:
        put_back(project.folder, project.kept)
        return Console(project)
    console = made(project)
    project.kept = files(project.folder)
    return console


def changed(project: Project, old: str, new: str) -> None:
    """The configuration with one text in the place of another."""
    text = (project.folder / "poller.toml").read_text()
    assert old in text
    project.write(text.replace(old, new))


def exported(console: Console, name: str = "kept.json") -> str:
    """The checkpoint of `orders` in a file: its path."""
    path = str(console.project.folder / name)
    assert console.run("checkpoint", "export", "orders", path, "--overwrite").code == 0
    return path


def deleted(console: Console) -> None:
    """As if somebody had deleted the state document of `orders`."""
    console.project.execute(f"DELETE FROM poller_documents WHERE name = '{STATE}'", database="state.db")


def at_work(console: Console, owner: str = "host/somebody", *, kept: bool = False) -> None:
    """As if a worker held the lease, for a minute from now; or as if an operator kept it."""
    now = datetime.now(UTC)
    lease = {"owner_id": owner, "acquired_at": now.isoformat(), "heartbeat_at": now.isoformat(), "ttl_seconds": 60.0}
    lease |= {"expires_at": (now + timedelta(seconds=60)).isoformat(), "released_at": None}
    lease["operator_token"] = console.state()["lease"]["fencing_token"] if kept else None
    console.edit(lease=lease)
    now_written = f"UPDATE poller_documents SET modified_at = strftime('%Y-%m-%dT%H:%M:%f') WHERE name = '{STATE}'"
    console.project.execute(now_written, database="state.db")


def word(console: Console, name: str = "orders") -> str:
    """What stands behind its name."""
    (line,) = [line for line in console.run("status", name).out.splitlines() if line.startswith(f"{name}  ")]
    return line.partition(f"{name}  ")[2].partition("  ")[0]
