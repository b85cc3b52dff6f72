"""Every session of docs/incidents.md is run, in order, on the embedded store, and prints what is shown."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest

from poller_cli.main import execute
from tests.repo.docs.blocks import ROOT, blocks
from tests.repo.docs.sessions import Session, Step, steps
from tests.support.services import wait_until

PAGE = "docs/incidents.md"
STRICT = """
def on_orders(batch):
    for order in batch:
        if order["customer"] is None:
            raise ValueError(f"order {order['id']} has no customer")
"""
REJECTING = """
from poller import Reject

def on_orders(batch):
    for order in batch:
        if order["customer"] is None:
            raise Reject(order, f"order {order['id']} has no customer")
"""
DOWN = """
from pathlib import Path

def on_orders(batch):
    if Path("down").exists():
        raise ConnectionError("warehouse.example refuses connections")
"""
HANGING = """
import time
from pathlib import Path

def on_orders(batch):
    if Path("hang").exists() and batch.rows[0]["id"] > 4:
        Path("hanging").touch()
        time.sleep(600)
"""
SLOW = """
import time
from pathlib import Path

def on_orders(batch):
    while Path("slow").exists() and batch.rows[0]["id"] > 7:
        Path("hanging").touch()
        time.sleep(0.02)
"""
LENIENT = "def on_orders(batch):\n    pass\n"


class Shop:
    """The folder that the sessions are typed in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (configuration,) = blocks(PAGE, "toml")
        (folder / "poller.toml").write_text(configuration.text)
        self.code = 0
        self.after: dict[str, Callable[[], None]] = {}
        """What happens in the world after a command."""
        self.started: list[subprocess.Popen[bytes]] = []
        self.environ = {
            **os.environ,
            "PATH": f"{folder}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "POLLER_OPERATOR": "ada",
            "NO_COLOR": "1",
        }
        self._sqlite3()

    def _sqlite3(self) -> None:
        """The program of that name, which not every machine has."""
        path = self.folder / "sqlite3"
        path.write_text(
            f"#!{sys.executable}\nimport sqlite3, sys\nwith sqlite3.connect(sys.argv[1]) as c: c.execute(sys.argv[2])\n"
        )
        path.chmod(0o755)

    def handlers(self, text: str, name: str = "handlers.py") -> None:
        (self.folder / name).write_text(text)

    def orders(self, rows: list[tuple[int, str | None, str]]) -> None:
        with closing(sqlite3.connect(self.folder / "shop.db")) as shop, shop:
            shop.execute(
                "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY NOT NULL, customer TEXT, "
                "updated_at TEXT NOT NULL)"
            )
            shop.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)

    def type(self, command: str) -> str:
        """What it prints on both streams. The last command's exit code is `$?`, as in one shell."""
        words = shlex.split(command)
        if words[0] != "poller":
            return self._bash(command)
        # In this process: each session has a dozen of them, and to start one takes longer than all that it does.
        printed = io.StringIO()
        with (
            contextlib.chdir(self.folder),
            patch.dict(os.environ, self.environ),
            patch("sys.stdin", io.StringIO()),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            self.code = execute(words[1:])
        return printed.getvalue()

    def _bash(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", f"(exit {self.code}); {command}"],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        self.code = done.returncode
        if "handlers.py" in command:  # each command is a process of its own, but for this test
            for name, module in list(sys.modules.items()):
                if (getattr(module, "__file__", None) or "").startswith(str(self.folder)):
                    del sys.modules[name]
        return done.stdout


def day(number: int, first: int, count: int, *, without: int = 0) -> list[tuple[int, str | None, str]]:
    return [
        (n, None if n == without else f"c{n}", f"2026-04-{number:02d} 01:23:{n:02d}")
        for n in range(first, first + count)
    ]


def options(shop: Shop, *lines: str) -> None:
    """The poller's options as a session has them, which is about another mode or is to be short."""
    text = (
        (shop.folder / "poller.toml").read_text().replace("max_attempts = 2", "\n".join(["max_attempts = 2", *lines]))
    )
    (shop.folder / "poller.toml").write_text(text)


def until_found(shop: Shop) -> None:
    """Calls without pauses until the row that fails is handed over alone; then one whose pause can be seen."""
    kept = (shop.folder / "poller.toml").read_text()
    options(shop, 'retry_backoff = "1ms"', 'retry_backoff_max = "1ms"')
    for _ in range(3):
        shop.type("poller run --once")
        time.sleep(0.002)
    (shop.folder / "poller.toml").write_text(kept)
    options(shop, 'retry_backoff = "1m"')
    shop.type("poller run --once")
    (shop.folder / "poller.toml").write_text(kept)


def poison(shop: Shop) -> None:
    shop.handlers(STRICT)
    shop.orders(day(7, 1, 10, without=7))
    until_found(shop)

    def another() -> None:
        shop.orders(day(7, 11, 2, without=11))
        until_found(shop)

    shop.after["poller run orders --until-idle"] = another


def waiting(shop: Shop) -> None:
    shop.handlers(REJECTING)
    shop.handlers(LENIENT, "handlers_v2.py")
    options(shop, 'on_poison = "quarantine"')
    shop.orders(day(7, 1, 10, without=7))
    shop.type("poller run --until-idle")


def full(shop: Shop) -> None:
    shop.handlers(REJECTING)
    shop.handlers(LENIENT, "handlers_v2.py")
    options(shop, 'on_poison = "quarantine"', "max_quarantined = 2")
    shop.orders([(n, None if n in (3, 5, 8) else f"c{n}", f"2026-04-07 01:23:{n:02d}") for n in range(1, 11)])
    until_found(shop)


def down(shop: Shop) -> None:
    shop.handlers(DOWN)
    shop.orders(day(7, 1, 10))
    (shop.folder / "down").touch()
    until_found(shop)
    shop.after["poller status orders"] = (shop.folder / "down").unlink


def halted(shop: Shop) -> None:
    shop.handlers(STRICT)
    options(shop, 'on_poison = "halt"', 'retry_backoff = "1ms"', 'retry_backoff_max = "1ms"')
    shop.orders(day(7, 1, 10, without=7))
    for _ in range(6):
        shop.type("poller run --once")
        time.sleep(0.002)


def stuck(shop: Shop) -> None:
    wait_until(lambda: time.time() % 300 < 280)  # its history has one line for five minutes
    shop.handlers(HANGING)
    shop.orders(day(7, 1, 6))
    options(shop, 'lease_ttl = "3s"')
    (shop.folder / "hang").touch()
    shop.started.append(
        subprocess.Popen(["poller", "run"], cwd=shop.folder, env=shop.environ, stderr=subprocess.DEVNULL)
    )
    wait_until(lambda: (shop.folder / "hanging").exists())
    (shop.folder / "hang").unlink()


def wrong(shop: Shop) -> None:
    shop.handlers(LENIENT)
    shop.orders(day(7, 1, 6))
    shop.type("poller run --until-idle")
    shop.type('sed -i \'s/"orders"/"orders_2026"/\' poller.toml')
    shop.orders(day(7, 7, 2))


def deploy(shop: Shop) -> None:
    for name in ("handlers.py", "handlers_v1.py", "handlers_v2.py"):
        shop.handlers(LENIENT, name)
    shop.orders(day(7, 1, 6))
    shop.type("poller run --until-idle")
    shop.orders(day(7, 7, 5))


def gone(shop: Shop) -> None:
    shop.handlers(LENIENT)
    shop.orders(day(7, 1, 6))
    shop.type("poller run --until-idle")
    with closing(sqlite3.connect(shop.folder / "state.db")) as state, state:
        state.execute("DELETE FROM poller_documents WHERE name = 'state/shop/orders.json'")
    shop.orders(day(8, 7, 2))


def clock(shop: Shop) -> None:
    shop.handlers(LENIENT)
    shop.orders([*day(7, 1, 6), *((n, f"c{n}", f"2099-04-07 01:23:{n:02d}") for n in (7, 8))])
    shop.type("poller run --until-idle")
    shop.type("poller reset-to-cursor orders --value '2099-04-07 01:23:08' --pk id=8 --allow-skip --yes")
    with closing(sqlite3.connect(shop.folder / "state.db")) as state, state:
        state.execute(
            "UPDATE poller_documents SET body = json_set(body, '$.bound.clock', '2099-04-07T01:23:09.500000Z')"
            " WHERE name = 'state/shop/orders.json'"
        )
    shop.orders(day(8, 9, 2))


def replay(shop: Shop) -> None:
    shop.handlers(LENIENT)
    shop.orders([*day(6, 1, 3), *day(7, 4, 9), *day(8, 13, 2)])
    shop.type("poller run --until-idle")


def hammering(shop: Shop) -> None:
    shop.handlers(SLOW)
    shop.orders([*day(6, 1, 3), *day(7, 4, 9), *day(8, 13, 2)])
    shop.type("poller run --until-idle")
    (shop.folder / "slow").touch()
    theirs = ["poller", "backfill", "orders", "--from", "2026-04-07", "--to", "2026-04-08", "--yes"]
    process = subprocess.Popen(
        theirs,
        cwd=shop.folder,
        env={**shop.environ, "POLLER_OPERATOR": "replay-job"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    shop.started.append(process)
    wait_until(lambda: (shop.folder / "hanging").exists())

    def batch_ends() -> None:
        (shop.folder / "slow").unlink(missing_ok=True)
        process.wait(30)

    pause = next(step for step in sessions()["A backfill is hammering the handler"] if " pause " in step.command)
    shop.after[pause.command] = batch_ends


def renamed(shop: Shop) -> None:
    shop.handlers(LENIENT)
    shop.orders(day(7, 1, 6))
    shop.type("poller run --until-idle")
    shop.orders(day(7, 7, 2))


SCENES: dict[str, Callable[[Shop], None]] = {
    "A poison row": poison,
    "A row in quarantine": waiting,
    "No room in quarantine": full,
    "The service behind the handler is down": down,
    "A halted poller": halted,
    "A stuck lease": stuck,
    "The wrong source": wrong,
    "Restore after a bad deploy": deploy,
    "The state document is gone": gone,
    "The database's clock was wrong": clock,
    "Replay of yesterday": replay,
    "A backfill is hammering the handler": hammering,
    "Another name for a poller": renamed,
}


def sessions() -> dict[str, list[Step]]:
    """By heading."""
    text = (ROOT / PAGE).read_text()
    found: dict[str, list[Step]] = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        shown = re.findall(r"^```console\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
        found[part.partition("\n")[0]] = [step for block in shown for step in steps(block)]
    return found


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.wait()


def test_every_kind_of_trouble_has_a_session() -> None:
    assert list(sessions()) == list(SCENES)


@pytest.mark.parametrize("heading", SCENES)
def test_the_session_prints_what_is_shown(shop: Shop, heading: str) -> None:
    SCENES[heading](shop)
    session = Session()
    for step in sessions()[heading]:
        printed = shop.type(session.command(step))
        difference = session.compare(step, printed)
        assert difference is None, difference
        shop.after.pop(step.command, lambda: None)()


# --- that a difference would be noticed ----------------------------------------------------------------------------

SHOWN = """$ poller x
  cursor  2026-04-07 01:23:04 / id=4, saved 2026-04-09 03:46:07Z
  backup  backups/shop/orders/20260409T034832_1-9a8.json
...
last 4.5 s, rows=6 ...
"""
PRINTED = """  cursor  2026-04-07 01:23:04 / id=4, saved 2031-12-31 23:59:59Z
  backup  backups/shop/orders/20311231T235959_7-fff.json
anything
last 17 s, rows=6 and more
"""


def test_volatile_output_may_differ_and_is_copied_onwards() -> None:
    (step,) = steps(SHOWN)
    session = Session()
    assert session.compare(step, PRINTED) is None
    later = Step("poller reset-to-checkpoint orders backups/shop/orders/20260409T034832_1-9a8.json")
    assert session.command(later).endswith("/20311231T235959_7-fff.json")


@pytest.mark.parametrize(
    ("printed", "instead"),
    [("id=4", "id=5"), ("2026-04-07", "2026-04-08"), ("rows=6", "rows=7"), ("anything\n", ""), (" more\n", "\nmore\n")],
)
def test_anything_else_that_differs_is_shown(printed: str, instead: str) -> None:
    (step,) = steps(SHOWN)
    difference = Session().compare(step, PRINTED.replace(printed, instead))
    assert (difference is None) is (printed == "anything\n"), "only `...` may stand for nothing"
