"""A shop on SQLite as its operator sees it: what the real command line prints, at one moment that a test moves on."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from poller_cli.main import execute
from tests.support.frozen import FrozenRuntime

STATE = "state/shop/orders.json"
WORKER = "vm3/ace0f706"
SETTINGS = {
    "COLUMNS": "80",
    "LINES": "24",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "TZ": "UTC",
    "POLLER_OPERATOR": "ada",
    "WEBSITE_INSTANCE_ID": "vm3",
}
PROCESS = 4711
"""The number of this process, in the place of its own."""
FOLDER = "/home/ada/the-shop"
"""What screens show in the place of a world's folder, whose path has as many characters: lines break where they did."""
HANDLERS = """
from pathlib import Path
from poller import Reject, RetryLater

def handle(batch):
    mode, _, poison = (Path(__file__).parent / "mode").read_text().partition(" ")
    for row in batch:
        if mode == "down":
            raise ConnectionError("the warehouse does not answer")
        if mode == "later":
            raise RetryLater("the warehouse is closed", after="10m")
        if str(row["id"]) == poison:
            error = f"order {poison} has no customer"
            raise Reject(row, error) if mode == "reject" else ValueError(error)
"""


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Keyboard(_Screen):
    """What is typed there is seen on the screen."""

    def __init__(self, text: str, screen: io.StringIO) -> None:
        super().__init__(text)
        self._screen = screen

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        line = super().readline(-1 if size is None else size)
        self._screen.write(line)
        return line


@contextmanager
def folder() -> Iterator[Path]:
    """A new one, whose path is as long as `FOLDER`."""
    with TemporaryDirectory(prefix="shop-", dir="/tmp") as made:
        assert len(made) == len(FOLDER)
        yield Path(made)


class World:
    """A folder with poller.toml, a table `orders` and a handler that does what the file `mode` says."""

    def __init__(
        self,
        folder: Path,
        *,
        more: tuple[str, ...] = (),
        poller: str = "",
        source: str = "",
        cursor: str = "updated_at",
    ) -> None:
        self.folder = folder
        self.clock = FrozenRuntime()
        self.cursor = cursor
        self.mode("ok")
        (folder / "handlers.py").write_text(HANDLERS)
        self.configure(*more, poller=poller, source=source)
        self.sql(
            *(
                f"CREATE TABLE {name} (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, customer TEXT, updated_at TEXT)"
                for name in ("orders", *more)
            ),
            "CREATE INDEX by_time ON orders (updated_at, id)",
        )

    # --- what stands there -----------------------------------------------------------------------------------------

    def configure(self, *more: str, poller: str = "", source: str = "", table: str = "orders", top: str = "") -> None:
        """Write poller.toml; `more`: further pollers by their names, each on its own table."""
        zone = 'cursor_time_zone = "UTC"\n' if self.cursor == "updated_at" else ""
        text = f'app_name = "shop"\n{top}\n[state]\nstore = "sql"\n'
        for name in ("orders", *more):
            of = table if name == "orders" else name
            text += f'[pollers.{name}]\nhandler = "handlers:handle"\n{poller}\n[pollers.{name}.source]\n'
            text += f'url = "sqlite:///shop.db"\ntable = "{of}"\ncursor_column = "{self.cursor}"\n{zone}'
            text += f'pk_columns = ["id"]\n{source}\n'
        (self.folder / "poller.toml").write_text(text)

    def mode(self, text: str) -> None:
        """What the handler does: `ok`, `down`, `later`, or with a row's id `fail` or `reject`."""
        (self.folder / "mode").write_text(text)

    def sql(self, *statements: str, database: str = "shop.db") -> None:
        with closing(sqlite3.connect(self.folder / database)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, count: int, *, table: str = "orders", age: float = 3.0) -> None:
        """Further rows, a second from each other, the last of them stamped `age` seconds ago."""
        for number in range(count):
            at = self.clock.now - timedelta(seconds=age + count - 1 - number)
            self.sql(f"INSERT INTO {table} (customer, updated_at) VALUES ('c{number}', '{at:%Y-%m-%d %H:%M:%S}')")

    def body(self, name: str = STATE) -> str | None:
        """What stands in the store under this name; None too if there is no store."""
        try:
            with closing(sqlite3.connect(self.folder / "state.db")) as connection:
                found = connection.execute("SELECT body FROM poller_documents WHERE name = ?", (name,)).fetchone()
        except sqlite3.OperationalError:
            return None
        return str(found[0]) if found else None

    def document(self, name: str = STATE) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body(name) or "")
        return found

    def put(self, body: str, name: str = STATE, *, age: float = 0.0) -> None:
        """Write a document by hand, so many seconds ago."""
        with closing(sqlite3.connect(self.folder / "state.db")) as connection, connection:
            statement = "UPDATE poller_documents SET body = ?, tag = 'x', modified_at = ? WHERE name = ?"
            connection.execute(statement, (body, self.ago(age)[:-4], name))

    def edit(self, *, age: float = 0.0, **parts: Any) -> None:
        """Change parts of the state document, or fields of them."""
        found = self.document()
        for part, value in parts.items():
            found[part] = {**(found[part] or {}), **value} if isinstance(value, dict) else value
        self.put(json.dumps(found), age=age)

    def ago(self, seconds: float) -> str:
        """A moment as documents write it."""
        at: datetime = self.clock.now - timedelta(seconds=seconds)
        return f"{at:%Y-%m-%dT%H:%M:%S.%f}Z"

    def wait(self, seconds: float) -> None:
        self.clock.pass_by(seconds)

    def at_work(self, seconds: float = 5.0, *, heartbeat: float = 3.0, ttl: float = 60.0, attempts: int = 1) -> None:
        """A worker took the lease so long ago, and renewed it `heartbeat` seconds ago."""
        token = self.document()["lease"]["fencing_token"] + 1
        lease = {"owner_id": WORKER, "fencing_token": token, "acquired_at": self.ago(seconds), "ttl_seconds": ttl}
        lease |= {"heartbeat_at": self.ago(heartbeat), "expires_at": self.ago(heartbeat - ttl), "released_at": None}
        self.edit(age=heartbeat, unfinished=True, lease=lease, delivery={"attempts": attempts})

    # --- what is typed ---------------------------------------------------------------------------------------------

    def run(self, *arguments: str, answer: str | None = None) -> tuple[int, str]:
        """The exit code, and what a terminal of 80 columns shows. `answer`: a person sits there and types this."""
        screen = _Screen()
        stdin = io.StringIO() if answer is None else _Keyboard(f"{answer}\n", screen)
        with ExitStack() as stack:
            stack.enter_context(patch.dict(os.environ, SETTINGS))
            os.environ.pop("POLLER_CONFIG", None)
            stack.enter_context(contextlib.chdir(self.folder))
            stack.enter_context(patch("os.getpid", return_value=PROCESS))
            stack.enter_context(patch("sys.stdin", stdin))
            stack.enter_context(contextlib.redirect_stdout(screen))
            stack.enter_context(contextlib.redirect_stderr(screen))
            stack.enter_context(self.clock.in_sqlite())
            code = execute(list(arguments), runtime=self.clock)
        return code, screen.getvalue().replace(str(self.folder), FOLDER)

    def tick(self, count: int = 1, *, every: float = 5.0) -> None:
        """Ticks of `orders`, and the time after each."""
        for _ in range(count):
            self.run("run", "orders", "--once")
            self.wait(every)

    def typed(self, *arguments: str, answer: str | None = None) -> str:
        """A command and what it prints, as a person sees it."""
        code, text = self.run(*arguments, answer=answer)
        ended = f"[exit code {code}]\n" if code else ""
        return f"$ {shlex.join(['poller', *arguments])}\n{text}{ended}"
