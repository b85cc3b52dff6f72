"""`poller prune --outbox`: rows of the poller's own table that every reader is done with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from poller import App, Batch, load_app
from poller.admin.prune import TablePrune
from poller.admin.refusals import Refused, WrongArgument


class Outbox:
    """A table of events, which two pollers read by its number."""

    def __init__(self, url: str, folder: Path, pk: str = "id", source: str = "") -> None:
        self.engine = sa.create_engine(url)
        self.run("CREATE TABLE events (id int NOT NULL, name varchar(20) NOT NULL, PRIMARY KEY (id, name))")
        text = f'app_name = "shop"\n[state]\nstore = "sql"\nurl = "sqlite:///{folder}/state.db"\n'
        for name in ("one", "two"):
            text += f'[pollers.{name}]\nhandler = "handlers:handle"\non_poison = "quarantine"\n'
            text += f'[pollers.{name}.source]\nurl = "{url}"\ntable = "events"\ncursor_column = "id"\n'
            text += f'cursor_kind = "integer+pk"\npk_columns = {pk}\nbound = "none"\n{source}\n'
        (folder / "poller.toml").write_text(text)
        self.app: App = load_app(folder / "poller.toml")

    def run(self, *statements: str) -> list[Any]:
        with self.engine.begin() as connection:
            done = [connection.execute(sa.text(statement)) for statement in statements]
            return list(done[-1].all()) if done[-1].returns_rows else []

    def write(self, *numbers: int, name: str = "a") -> None:
        self.run(*(f"INSERT INTO events VALUES ({number}, '{name}')" for number in numbers))

    def deliver(self, *names: str) -> None:
        def handle(batch: Batch) -> None:
            for row in batch:
                if row["name"] == "bad":
                    batch.reject(row, "no")

        for name in names:
            self.app.pollers[name].tick(handle)

    def prune(self, **options: Any) -> TablePrune:
        app, source = self.app, self.app.pollers["one"].source.describe()
        given = {"outbox": True, **options}
        return TablePrune("one", app.config, source, store=app.store, runtime=app.runtime, environ=os.environ, **given)

    def left(self) -> list[tuple[int, str]]:
        return [tuple(row) for row in self.run("SELECT id, name FROM events ORDER BY id, name")]

    def close(self) -> None:
        self.app.close()
        self.engine.dispose()


@pytest.fixture(params=["postgres_db", "sqlite_url"])
def outbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Outbox]:
    made = Outbox(request.getfixturevalue(request.param), tmp_path, pk='["id", "name"]')
    yield made
    made.close()


def test_rows_below_the_least_checkpoint_go_and_waiting_ones_stay(outbox: Outbox) -> None:
    outbox.write(1, 2, 3)
    outbox.write(2, name="bad")
    outbox.deliver("one")
    outbox.write(4, 5)
    outbox.deliver("one", "two")
    outbox.write(6)
    assert outbox.prune().plan().captured is False
    assert outbox.prune().run().rows == 3
    assert outbox.left() == [(2, "a"), (2, "bad"), (5, "a"), (6, "a")], "those with a number of several rows stay"


def test_a_table_that_is_no_change_table_needs_the_option(outbox: Outbox) -> None:
    outbox.write(1, 2)
    outbox.deliver("one", "two")
    with pytest.raises(Refused, match="events is not a change table of poller") as refused:
        outbox.prune(outbox=False).run()
    assert "--outbox" in refused.value.next_step
    with pytest.raises(WrongArgument, match="how old its rows are is not known"):
        outbox.prune(age=timedelta(days=1)).run()
    assert len(outbox.left()) == 2


@pytest.mark.parametrize(
    ("of", "instead", "says"),
    [
        ('bound = "none"', "filter = \"name <> 'b'\"", "it has a filter"),
        ("integer+pk", "timestamp+pk", "only tables that are followed by a number"),
    ],
)
def test_what_cannot_be_pruned_is_refused(of: str, instead: str, says: str, sqlite_url: str, tmp_path: Path) -> None:
    made = Outbox(sqlite_url, tmp_path, pk='["id", "name"]')
    made.close()
    config = tmp_path / "poller.toml"
    config.write_text(config.read_text().replace(of, instead))
    with load_app(config) as made.app, pytest.raises(Refused, match=says):
        made.prune()
