"""How long it takes from `git clone` to the first row of one's own table: the blocks of docs/getting-started.md, run as
they stand in empty folders, nothing installed and nothing cached before. Writes the table below them.

    python -m scripts.stopwatch [embedded] [azurite]

The row's table is there before, since it is the reader's own; so is the PostgreSQL server, which the tests' support
starts. The clone is one of this checkout's last commit, from this disk.
"""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import sqlalchemy as sa

from tests.support import postgres

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "getting-started.md"
SHOP = """
CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, total REAL, updated_at TEXT NOT NULL);
INSERT INTO orders VALUES (1, 99.5, strftime('%Y-%m-%d %H:%M:%f', 'now'));
"""
_BLOCK = re.compile(r"^<!-- stopwatch: (\w+) -->\n\n```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"(?<=<!-- stopwatch -->\n).*?(?=<!-- /stopwatch -->)", re.DOTALL)
_ROW = re.compile(r"^orders/id=1/", re.MULTILINE)


@dataclass(frozen=True)
class Taken:
    """What a run took. `seconds`: of each command, in order."""

    commands: tuple[str, ...]
    seconds: tuple[float, ...]

    @property
    def own(self) -> float:
        """Seconds of our own commands; the rest sets up Python and servers."""
        both = zip(self.commands, self.seconds, strict=True)
        return sum(took for command, took in both if command.startswith("poller "))


def commands(name: str) -> tuple[str, ...]:
    """The commands of the page's block."""
    return tuple(dict(_BLOCK.findall(PAGE.read_text()))[name].splitlines())


def run_all(lines: tuple[str, ...], folder: Path, environ: Mapping[str, str], repository: Path = ROOT) -> Taken:
    """Type them all in one shell. Raises: RuntimeError, where one fails or no row arrives."""
    told = 'printf "\\036%s\\n" "$EPOCHREALTIME"'
    text = "\n".join(f"{line.replace('REPOSITORY', f'file://{repository}')}\n{told}" for line in lines)
    done = subprocess.run(
        ["bash", "-euc", f"{told}\n{text}\nkill $(jobs -p) 2>/dev/null || true"],
        cwd=folder,
        env=dict(environ),
        check=False,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    moments = [float(one) for one in re.findall(r"\x1e([\d.]+)", done.stdout)]
    if done.returncode or len(moments) != len(lines) + 1 or not _ROW.search(done.stdout):
        last = lines[max(0, len(moments) - 1) :][:1]
        raise RuntimeError(f"{last}: no row\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return Taken(lines, tuple(after - before for before, after in pairwise(moments)))


def _embedded(folder: Path, _: ExitStack) -> dict[str, str]:
    with closing(sqlite3.connect(folder / "shop.db")) as shop, shop:
        shop.executescript(SHOP)
    return {}


def _azurite(_: Path, stack: ExitStack) -> dict[str, str]:
    """A PostgreSQL with the table of the page."""
    server = postgres.obtain()
    stack.callback(server.stop)
    url = server.new_database()
    engine = sa.create_engine(url)
    (made,) = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    with engine.begin() as connection:
        connection.execute(sa.text(made))
    engine.dispose()
    return {"SHOP_URL": url}


SETTINGS: dict[str, Callable[[Path, ExitStack], dict[str, str]]] = {"embedded": _embedded, "azurite": _azurite}
WORDS = {
    "embedded": "a table in SQLite, state in SQLite",
    "azurite": "a table in PostgreSQL, state in Azurite",
}


def measure(name: str) -> Taken:
    """Run a block in an empty folder."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        more = SETTINGS[name](Path(folder), stack)
        hidden = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
        kept = {key: value for key, value in os.environ.items() if key not in hidden}
        path = os.pathsep.join(one for one in kept["PATH"].split(os.pathsep) if ".venv" not in one)
        fresh = {"PIP_NO_CACHE_DIR": "1", "npm_config_cache": f"{folder}/.npm", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        return run_all(commands(name), Path(folder), {**kept, "PATH": path, **fresh, **more})


def table(taken: Mapping[str, Taken]) -> str:
    """The page's table."""
    rows = [
        f"| {WORDS[name]} | {len(one.commands)} | {sum(one.seconds):.0f} s | {one.own:.1f} s |"
        for name, one in taken.items()
    ]
    head = "| | commands | from the clone to the first row | of that `poller` itself |\n|---|---|---|---|"
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"
    measured = f"Measured by `python -m scripts.stopwatch` on {datetime.now(UTC):%Y-%m-%d}, {machine}, with no cache."
    return "\n".join(["", head, *rows, "", measured, "", ""])


def main() -> int:
    """Measure what is named, or all, and write the table."""
    began = time.monotonic()
    taken = {name: measure(name) for name in sys.argv[1:] or SETTINGS}
    for name, one in taken.items():
        for command, seconds in zip(one.commands, one.seconds, strict=True):
            print(f"{name:10} {seconds:7.1f} s  {command}")
    if taken.keys() == SETTINGS.keys():
        PAGE.write_text(_TABLE.sub(lambda _: table(taken), PAGE.read_text(), count=1))
    print(f"{time.monotonic() - began:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
