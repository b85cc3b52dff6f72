"""Many idle pollers over some databases, and rounds of their dispatcher."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import create_engine, text

from poller import Poller
from poller.dispatch.probes import DatabaseProber
from poller.dispatch.round import Dispatcher, Pollers
from poller.model.document import State, encode
from poller.model.transitions import create
from poller.runtime import SystemRuntime
from poller.sources import SqlSource
from poller.stores import BlobStore
from tests.support.azurite import Azurite
from tests.support.dispatching import ListQueue

APP = "shop"


class Always(SystemRuntime):
    """A wall clock that is ten seconds later at each round, so that everybody is due."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = 0

    def utcnow(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=10 * self.rounds)


def measure(urls: Sequence[str], *, pollers: int, rounds: int) -> Iterator[dict[str, Any]]:
    """One line: of the first round of a process, and of the later ones."""
    with Azurite.start(memory=True) as azurite:
        container = azurite.container_name()
        store = BlobStore.from_connection_string(azurite.connection_string, container)
        runtime = Always()
        wired = {f"p{number}": _poller(urls[number % len(urls)], number, store) for number in range(pollers)}
        for url in urls:
            _table(url)
        for poller in wired.values():
            _idle(poller, store)
        options = {name: poller.options for name, poller in wired.items()}
        dispatcher = Dispatcher(
            Pollers(APP, options, wired.__getitem__),
            store=store,
            queue=ListQueue(),
            prober=DatabaseProber(runtime),
            runtime=runtime,
        )
        took, spent, asked, requests = [], [], [], Counter[str]()
        for number in range(rounds + 2):  # the first reads all documents, the second asks for the first time
            runtime.rounds += 1
            mark, began, processor = azurite.mark(), time.perf_counter(), time.process_time()
            output = dispatcher.round()
            took.append(time.perf_counter() - began)
            spent.append(time.process_time() - processor)
            asked.append(output.asked)
            if number > 1:
                requests.update(
                    "LIST" if "comp=list" in one.query else one.method
                    for one in azurite.requests(mark)
                    if one.path.startswith(f"/{container}")
                )
        dispatcher.close()
        for poller in wired.values():
            poller.source.close()
        store.close()
    yield {
        "bench": "dispatch",
        "pollers": pollers,
        "databases": len(urls),
        "first_s": round(took[0] + took[1], 3),
        "round_s": [round(one, 4) for one in took[2:]],
        "median_s": round(statistics.median(took[2:]), 4),
        "cpu_s": round(statistics.median(spent[2:]), 4),
        "asked": statistics.median(asked[2:]),
        "requests_per_round": {name: count / rounds for name, count in requests.items()},
    }


def _table(url: str) -> None:
    engine = create_engine(url)
    zone = " WITH TIME ZONE" if engine.dialect.name == "postgresql" else "(6)" if "my" in engine.dialect.name else ""
    kind = "TEXT" if engine.dialect.name == "sqlite" else ("DATETIME(6)" if zone == "(6)" else f"TIMESTAMP{zone}")
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, updated_at {kind} NOT NULL)"))
        connection.execute(text("CREATE INDEX orders_place ON orders (updated_at, id)"))
        connection.execute(text("INSERT INTO orders VALUES (1, '2026-01-02 03:04:05')"))
    engine.dispose()


def _poller(url: str, number: int, store: BlobStore) -> Poller:
    source = SqlSource(
        url, table="orders", cursor_column="updated_at", cursor_time_zone="UTC", pk_columns=["id"], filter="id > 0"
    )
    return Poller(f"p{number}", source=source, store=store, app_name=APP, observers=(), lease_ttl="10s")


_known: dict[str, State] = {}


def _idle(poller: Poller, store: BlobStore) -> None:
    """Its document, as a tick that delivered all rows leaves it; the first one of each database makes one."""
    url = str(poller.source.subject.url)  # type: ignore[attr-defined]
    if url not in _known:
        poller.tick(lambda _: None)
        copy = poller._runner.context.file.read()
        assert copy is not None
        _known[url] = copy.state
        return
    state = create(
        poller.name, poller.source.describe(), _known[url].checkpoint.cursor, now=datetime.now(UTC), ttl=10.0
    )
    known = _known[url]
    whole = known.model_copy(update={"poller_name": poller.name, "lease": state.lease})
    store.write(f"state/{APP}/{poller.name}.json", encode(whole), if_tag=None)
