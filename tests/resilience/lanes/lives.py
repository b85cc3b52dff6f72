"""Lives of a poller with several lanes, one after the other, each ended by SIGKILL at a random instant of its work.

    python -m tests.resilience.lanes.lives SETTINGS        (JSON: the fields of `Settings`)

A process that forks one child per life: what takes long to import is imported once. A life ticks until somebody makes
the file `finished` beside the log and nothing is left.

The log has a line for each call of the handler: `b LIFE TOKEN CALL ID:VERSION:KEY ...` where it begins (the version is
`updated_at` in microseconds), `e LIFE CALL` where it has done all of them, or `f LIFE CALL` where it raises. Each is
written at once, so its lines are in the order in which things happened.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from poller import Batch, Poller
from poller.errors import SourceUnavailable, StoreUnavailable
from poller.sources import SqlSource
from poller.stores import BlobStore

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Settings:
    """What a line of lives is given.

    Attributes:
        name: of the table and the poller. database, connection, container: where table and state are. log: the file.
        kills: so many lives are killed. longest: a life is killed after so many seconds of work at most.
        stops: seconds for which a life is stopped instead (SIGSTOP); 0: it is killed.
        first: the number of its first life.
        fails: so many calls of a thousand raise. pause: seconds that a call takes at most.
        options, source: of the poller and its source.
    """

    name: str
    database: str
    connection: str
    container: str
    log: str
    kills: int = 0
    longest: float = 1.5
    stops: float = 0.0
    first: int = 1
    fails: int = 0
    pause: float = 0.002
    seed: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)

    def as_argument(self) -> str:
        return json.dumps(asdict(self))


def live(settings: Settings, life: int) -> None:
    """Tick until all is done."""
    log, chance = Path(settings.log), random.Random(settings.seed * 1000 + life)
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    calls = 0

    def handle(batch: Batch) -> None:
        nonlocal calls
        calls += 1
        call, pause, fails = f"{calls}-{batch.standing.lane}", chance.random(), chance.randrange(1000)
        rows = " ".join(
            f"{row['id']}:{(_moment(row['updated_at']) - EPOCH) // MICROSECOND}:{row['customer']}" for row in batch
        )
        os.write(file, f"b {life} {batch.fencing_token} {call} {rows}\n".encode())
        time.sleep(settings.pause * pause)
        if fails < settings.fails:
            os.write(file, f"f {life} {call}\n".encode())
            raise OSError("the other side is down")
        os.write(file, f"e {life} {call}\n".encode())

    source = SqlSource(
        settings.database, table=settings.name, cursor_column="updated_at", pk_columns=["id"], **settings.source
    )
    store = BlobStore.from_connection_string(settings.connection, container=settings.container)
    with Poller(settings.name, source=source, store=store, app_name="shop", **settings.options) as poller:
        while True:
            finished = (log.parent / "finished").exists()
            try:
                result = poller.tick(handle)
            except (SourceUnavailable, StoreUnavailable):  # an outage
                time.sleep(0.2)
                continue
            if finished and result.outcome == "idle" and not result.pending:
                return
            if result.outcome != "delivered":
                time.sleep(0.05)


def _moment(value: Any) -> datetime:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _end(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    sys.exit(1)


def main(argument: str) -> None:
    settings = Settings(**json.loads(argument))
    chance, log = random.Random(settings.seed), Path(settings.log)
    log.touch()
    kills = 0
    for life in itertools.count(settings.first):
        size = log.stat().st_size
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            code = 1
            try:
                live(settings, life)
                code = 0
            except Exception as error:  # noqa: BLE001 - the parent says that this life went wrong
                print(f"life {life}: {type(error).__name__}: {error}", file=sys.stderr)
            finally:
                os._exit(code)
        signal.signal(signal.SIGTERM, lambda *_, last=child: _end(last))
        while True:
            while kills == settings.kills or log.stat().st_size == size:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    sys.exit(os.waitstatus_to_exitcode(status))
                time.sleep(0.02)
            time.sleep(chance.uniform(0.0, settings.longest))
            kills += 1
            if not settings.stops:
                break
            os.kill(child, signal.SIGSTOP)
            time.sleep(settings.stops)
            os.kill(child, signal.SIGCONT)
            size = log.stat().st_size
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(sys.argv[1])
