"""A program sees what a change would do before it makes it: `Poller.prepare` and `Poller.apply`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlalchemy as sa

from poller import Poller
from poller.admin import ChangeOutput, Pause, Preview, Refused, Reset
from poller.errors import LeaseHeld, StoreDenied
from poller.model.cursor import Cursor
from poller.ports import Found, Timeout
from poller.sources import SqlSource
from poller.stores import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)"))
        connection.execute(sa.text("INSERT INTO orders VALUES (1, '2026-01-01'), (2, '2026-01-02'), (3, '2026-01-03')"))
    engine.dispose()
    return url


def orders(url: str, store: MemoryStore) -> Poller:
    source = SqlSource(url=url, table="orders", cursor_column="updated_at", cursor_time_zone="UTC", pk_columns=["id"])
    return Poller("orders", source=source, store=store, app_name="shop", observers=[])


@pytest.fixture
def poller(url: str, store: MemoryStore) -> Poller:
    """It delivered three rows."""
    made = orders(url, store)
    assert made.tick(lambda _: None).rows == 3
    return made


def stored(store: MemoryStore) -> dict[str, bytes]:
    return {name: found.body for name in store.names("") if isinstance(found := store.read(name), Found)}


def test_a_preview_changes_nothing_and_says_what_would_happen(poller: Poller, store: MemoryStore) -> None:
    before = stored(store)
    preview = poller.prepare(Reset(None), reason="new prices", by="ada")
    assert preview.output.effect.lines() == ["3 rows will be delivered again"]
    assert (preview.output.before, preview.output.changed) != (None, True)
    assert ("cursor", "2026-01-03 / id=3 -> the beginning") in preview.lines
    assert preview.refusals == []
    assert stored(store) == before
    assert preview.change == Reset(None)


def test_what_was_shown_is_made_with_who_and_why(poller: Poller) -> None:
    made = poller.apply(poller.prepare(Reset(None), reason="new prices", by="ada"))
    assert isinstance(made, ChangeOutput)
    assert (made.changed, made.by, made.reason) == (True, "ada", "new prices")
    assert poller.tick(lambda _: None).rows == 3


def test_what_skips_rows_needs_leave(poller: Poller, store: MemoryStore) -> None:
    poller.reset("beginning")
    last = Cursor(kind="timestamp+pk", value="2026-01-03", tiebreaker={"id": 3})
    preview = poller.prepare(Reset(last))
    assert [one.allow for one in preview.refusals] == ["allow_skip"]
    before = stored(store)
    with pytest.raises(Refused, match="3 rows will never be delivered"):
        poller.apply(preview)
    assert stored(store) == before
    made = poller.apply(preview, allow={"allow_skip"})
    assert isinstance(made, ChangeOutput)
    assert made.effect.skipped == 3


@pytest.mark.guarantee("One worker at a time", "A change is made as it was shown, or shown again")
def test_another_operators_change_is_shown_before_ours_is_made(poller: Poller, store: MemoryStore, url: str) -> None:
    preview = poller.prepare(Reset(None))
    assert orders(url, store).pause(by="bob").changed
    before = stored(store)["state/shop/orders.json"]
    again = poller.apply(preview)
    assert isinstance(again, Preview)
    assert again.meanwhile == "another operator changed it meanwhile."
    assert stored(store)["state/shop/orders.json"] == before
    made = poller.apply(again)
    assert isinstance(made, ChangeOutput)
    assert (made.changed, made.after and made.after.paused) == (True, True)


def test_a_workers_commit_in_between_is_no_obstacle_and_is_said(poller: Poller, store: MemoryStore, url: str) -> None:
    preview = poller.prepare(Reset(None))
    with sa.create_engine(url).begin() as connection:
        connection.execute(sa.text("INSERT INTO orders VALUES (4, '2026-01-04')"))
    assert orders(url, store).tick(lambda _: None).rows == 1
    made = poller.apply(preview)
    assert isinstance(made, ChangeOutput)
    assert made.effect.redelivered == 4
    assert any("A worker committed meanwhile: the checkpoint was at 2026-01-04" in note for note in made.notes)


def test_the_same_change_by_another_leaves_nothing_to_do(poller: Poller, store: MemoryStore, url: str) -> None:
    preview = poller.prepare(Pause())
    assert orders(url, store).pause(by="bob", reason="migration").changed
    made = poller.apply(preview)
    assert isinstance(made, ChangeOutput)
    assert (made.changed, made.notes) == (False, ["orders is paused already by bob: migration."])


def test_a_change_that_asks_the_source_waits_for_no_tick(poller: Poller, url: str) -> None:
    preview = poller.prepare(Reset(None))
    poller.reset("beginning")
    refused: list[LeaseHeld] = []

    def handle(_: object) -> None:
        with pytest.raises(LeaseHeld) as prepared:
            poller.prepare(Reset(None))
        with pytest.raises(LeaseHeld) as applied:
            poller.apply(preview)
        refused.extend([prepared.value, applied.value])

    poller.tick(handle)
    assert len(refused) == 2


class Refusing(MemoryStore):
    """A store that takes documents and no line of a trail, as an account whose append blobs a policy forbids."""

    def append(self, name: str, line: str, *, timeout: Timeout | None = None) -> None:
        raise StoreDenied("403 from the store.", document=name)


def test_the_log_names_each_change_whose_record_is_refused(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """The document keeps the record of the last change only."""
    with orders(url, Refusing()) as poller:
        poller.tick(lambda _: None)
        assert poller.pause(by="ann", reason="migration").changed
        assert poller.resume(by="bob").changed
    assert re.search(r"orders: a record of the audit trail was not written: 403.* \(pause .* by ann\)", caplog.text)
