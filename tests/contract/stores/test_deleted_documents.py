"""In every store a state document that is deleted is recognised by what else is there, and made again by a person only;
one that nobody changes is written once a week."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from poller import Poller
from poller.contract.stores import Place
from poller.errors import StateCorrupt
from poller.observability import Began, PollerEvent
from poller.ports import Found, Missing, StateStore, Timeout, Unchanged
from poller.sources import SqlSource

STATE = "state/shop/orders.json"
QUIET = timedelta(days=8)


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table without rows."""
    url = f"sqlite:///{tmp_path / 'orders.db'}"
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)"))
    engine.dispose()
    return url


class Aged:
    """A store of which one version of the document is days old: no server lets a test set when it was written."""

    def __init__(self, store: StateStore, tag: str) -> None:
        self._store = store
        self._tag = tag

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        found = self._store.read(name, unless=unless, timeout=timeout)
        if isinstance(found, Found) and found.tag == self._tag and found.modified_at is not None:
            return replace(found, modified_at=found.modified_at - QUIET)
        return found


def poller_of(store: StateStore, table: str, events: list[PollerEvent], start: str = "now") -> Poller:
    source = SqlSource(
        table,
        table="orders",
        cursor_column="updated_at",
        cursor_time_zone="UTC",
        pk_columns=["id"],
        start_from=start,
        bound="none",
    )
    return Poller("orders", app_name="shop", source=source, store=store, observers=[events.append])


def ticked(place: Place, table: str, store: StateStore | None = None) -> list[PollerEvent]:
    """What a process of its own reports of one tick without rows."""
    events: list[PollerEvent] = []
    with closing(poller_of(store or place.open(), table, events)) as poller:
        assert poller.tick(lambda _: None).outcome == "idle"
    return events


def found(store: StateStore) -> Found:
    answer = store.read(STATE)
    assert isinstance(answer, Found)
    return answer


def test_a_deleted_document_is_begun_again_by_a_person_only(place: Place, table: str) -> None:
    (event,) = (one for one in ticked(place, table) if isinstance(one, Began))
    assert event.start_from == "now"
    place.delete(STATE)
    events: list[PollerEvent] = []
    with closing(poller_of(place.open(), table, events)) as poller:
        with pytest.raises(StateCorrupt, match="is gone, but it ran before"):
            poller.tick(lambda _: None)
        assert isinstance(place.open().read(STATE), Missing)
        preview = poller.reset("beginning", dry_run=True)
        assert (preview.changed, preview.effect.redelivered) == (False, None)
        assert isinstance(place.open().read(STATE), Missing)
        output = poller.reset("beginning", by="ann")
    assert output.changed
    assert output.after is not None
    assert output.after.fencing_token == 1  # the document was made by an idle tick, with token 0
    assert [one for one in events if isinstance(one, Began)] == []


def test_an_old_document_is_written_once_more(place: Place, table: str) -> None:
    ticked(place, table)
    before = found(place.open())
    ticked(place, table)
    assert found(place.open()).tag == before.tag
    aged = Aged(place.open(), before.tag)
    ticked(place, table, aged)  # type: ignore[arg-type]
    after = found(place.open())
    assert after.tag != before.tag
    ticked(place, table, aged)  # type: ignore[arg-type]
    assert found(place.open()).tag == after.tag
