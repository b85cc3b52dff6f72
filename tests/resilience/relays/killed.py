"""`poller run` with a relay, ended by SIGKILL every few seconds until every row has gone through.

For each relay the same: flights go into a table of PostgreSQL, and from there through the relay.

    killed = RelayUnderKills(tmp_path, postgres_db, handler="poller.relays:queue", settings='queue = "flights"')
    killed.load(flights.january())
    lives = killed.drain(seed=1)
    ... what the target has now

Each life commits at least a batch before it is killed, at a random moment; the next one waits until the dead one's
lease has expired. The last life ends by itself, once no row is left (`--until-idle`). What a worker was doing when it
was killed differs from run to run; `seed` only chooses how long each lives.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine

from tests.support import flights
from tests.support.services import REPOSITORY, wait_until

CONFIG = """
app_name = "relays"
[state]
{state}
[pollers.flights]
handler = "{handler}"
lease_ttl = "3s"
heartbeat_interval = "1s"
{options}
[pollers.flights.relay]
{settings}
[pollers.flights.source]
url = "%FLIGHTS_URL%"
table = "flights"
cursor_column = "time_hour"
pk_columns = {key}
{source_options}
"""
LONGEST = 600.0
"""Seconds without a batch after which something hangs."""


@dataclass
class Life:
    """One process, from its start to its end.

    Attributes:
        batches, rows: how much it has committed, as far as it said. killed: whether it did not end by itself.
    """

    process: subprocess.Popen[str]
    log: Path
    batches: int = 0
    rows: int = 0
    killed: bool = False
    events: list[str] = field(default_factory=list)

    def read(self) -> None:
        """Take what it reports, until its end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):  # a killed process may leave half a line
                self._note(json.loads(line))

    def _note(self, event: Mapping[str, Any]) -> None:
        self.events.append(event["event"])
        if event["event"] == "batch_committed":
            self.batches += 1
            self.rows += event["rows"]

    @property
    def ended(self) -> bool:
        """Whether its process has ended."""
        return self.process.poll() is not None


class RelayUnderKills:
    """A folder with a configuration, and a table of flights.

    Args:
        folder: for `poller.toml`, logs and, by default, the state. source: URL of a PostgreSQL database.
        handler, settings: of the relay; `settings` are lines of `[pollers.flights.relay]`, `%NAME%` of `environ`.
        options: lines of `[pollers.flights]`, such as `batch_size = 500`; source_options: of its `source`.
        state: lines of `[state]`; default: SQLite in the folder. environ: what the processes have beside.
    """

    def __init__(
        self,
        folder: Path,
        source: str,
        *,
        handler: str,
        settings: str = "",
        options: str = "",
        source_options: str = "",
        state: str = 'store = "sql"',
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.source = source
        self.lives: list[Life] = []
        self._environ = {
            **{name: value for name, value in os.environ.items() if name != "POLLER_CONFIG"},
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "cli")]),
            "FLIGHTS_URL": source,
            **(environ or {}),
        }
        key = json.dumps(flights.KEY)
        text = CONFIG.format(
            state=state, handler=handler, options=options, settings=settings, key=key, source_options=source_options
        )
        (folder / "poller.toml").write_text(text)

    def load(self, rows: Sequence[flights.Row]) -> None:
        """Make the table with these rows."""
        engine = create_engine(self.source)
        flights.load(engine, flights.create_table(engine), rows)
        engine.dispose()

    def drain(self, *, seed: int, lives: tuple[float, float] = (0.5, 4.0), most_kills: int = 1000) -> list[Life]:
        """Run, kill and run again until no row is left.

        Args:
            lives: how many seconds a process lives after its first batch, at least and at most.
            most_kills: after so many kills the last process is left alone.
        """
        chance = random.Random(seed)
        while not (self.lives and self.lives[-1].ended and not self.lives[-1].killed):
            life = self._start()
            reader = threading.Thread(target=life.read, daemon=True)
            reader.start()
            wait_until(lambda life=life: life.batches or life.ended, f"a batch of {life.log}", seconds=LONGEST)  # type: ignore[misc]
            if len(self.lives) <= most_kills:
                self._kill(life, after=chance.uniform(*lives))
            else:
                life.process.wait(LONGEST)
            reader.join(30)
            assert life.killed or life.process.returncode == 0, life.log.read_text()[-3000:]
        return self.lives

    @property
    def kills(self) -> int:
        """How many processes were killed."""
        return sum(life.killed for life in self.lives)

    def close(self) -> None:
        """End what runs yet."""
        for life in self.lives:
            if not life.ended:
                life.process.kill()
                life.process.wait(30)

    def _start(self) -> Life:
        log = self.folder / f"life-{len(self.lives) + 1}.log"
        with log.open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "poller_cli.main", "run", "flights", "--json", "--until-idle"],
                cwd=self.folder,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.lives.append(Life(process, log))
        return self.lives[-1]

    @staticmethod
    def _kill(life: Life, *, after: float) -> None:
        """Kill it then, unless it ends before."""
        try:
            life.process.wait(after)
        except subprocess.TimeoutExpired:
            life.process.kill()
            life.process.wait(30)
            life.killed = life.process.returncode < 0
