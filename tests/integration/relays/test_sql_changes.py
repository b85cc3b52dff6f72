"""`poller.relays:sql` with changes of a captured table: the target becomes what the table is, deletes included."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text

from poller import Batch, Standing
from poller.relays import relay
from tests.integration.relays.endpoint import called
from tests.integration.relays.into import Made, batch, rows_of, with_tables

AT = datetime(2026, 4, 7, tzinfo=UTC)
TABLES = {
    "copy": "id INTEGER PRIMARY KEY NOT NULL, name VARCHAR(20), CONSTRAINT short CHECK (name <> 'no')",
    "named": "code VARCHAR(20) PRIMARY KEY NOT NULL, name VARCHAR(20)",
    "story": "change_id INTEGER PRIMARY KEY NOT NULL, op CHAR(1), id INTEGER, name VARCHAR(20)",
}


@pytest.fixture
def target(engine: Engine) -> Engine:
    return with_tables(engine, TABLES)


def change(number: int, op: str, id_: Any = None, name: str | None = None) -> dict[str, Any]:
    old = {"id": id_, "name": "before"} if op in "UD" else None
    return {"id": id_, "name": name, "_op": op, "_old": old, "_change": number, "_tx": None, "_at": AT}


def test_one_key_several_times_in_a_batch_ends_as_it_was_last(target: Engine, made: Made) -> None:
    story = [change(1, "I", 1, "a"), change(2, "U", 1, "b"), change(3, "D", 1, "b"), change(4, "I", 1, "c")]
    story += [change(5, "R", 2, "a"), change(6, "D", 2, "a"), change(7, "I", 3, "a")]
    assert called(made(), batch(story)).error is None
    assert rows_of(target) == [(1, "c"), (3, "a")]


def test_a_delete_that_comes_again_takes_no_newer_row(target: Engine, made: Made) -> None:
    write = made()
    write(batch([change(1, "I", 1, "a"), change(2, "D", 1, "a")]))
    write(batch([change(3, "I", 1, "b")]))
    write(batch([change(1, "I", 1, "a"), change(2, "D", 1, "a"), change(3, "I", 1, "b")]))
    assert rows_of(target) == [(1, "b")]


def test_a_delete_without_old_values_needs_the_key_alone(target: Engine, made: Made) -> None:
    write = made()
    write(batch([change(1, "I", 1, "a"), change(2, "I", 2, "a")]))
    write(batch([{**change(3, "D", 1, None), "_old": None}, change(4, "D", 9, None)]))
    assert rows_of(target) == [(2, "a")], "a row that is not there is deleted already"


def test_an_emptied_table_stops_before_it_until_deleting_is_chosen(target: Engine, made: Made) -> None:
    story = [change(2, "I", 2, "b"), change(3, "T"), change(4, "I", 3, "c")]
    stopping = made()
    stopping(batch([change(1, "I", 1, "a")]))
    result = called(stopping, batch(story))
    assert (result.end, rows_of(target)) == ("later", [(1, "a")])
    assert 'Set on_truncate = "delete"' in str(result.error)
    assert called(made(on_truncate="delete"), batch(story)).error is None
    assert rows_of(target) == [(3, "c")]
    assert called(stopping, batch(story)).error is None, "it was emptied already, and is not stopped at once more"


def test_a_snapshot_begins_in_an_empty_target(target: Engine, made: Made) -> None:
    stopping = made()
    stopping(batch([change(1, "I", 1, "stale")]))
    result = called(stopping, batch([change(2, "B")]))
    assert (result.end, rows_of(target)) == ("later", [(1, "stale")])
    assert 'set on_snapshot = "sweep"' in str(result.error)
    assert called(made(on_snapshot="delete"), batch([change(2, "B")])).error is None
    assert called(stopping, batch([change(3, "R", 2, "b")])).error is None
    assert called(stopping, batch([change(4, "E")])).error is None
    assert rows_of(target) == [(2, "b")]


def test_a_snapshot_is_no_story_of_changes(target: Engine, made: Made) -> None:
    columns = {"change_id": "_change", "op": "_op", "id": "id", "name": "name"}
    keep = made(table="story", mode="insert", key_columns=["change_id"], columns=columns)
    assert 'mode is "insert"' in str(called(keep, batch([change(1, "B")])).error)


def test_changes_behind_one_that_the_target_refuses_wait_by_key(target: Engine, made: Made) -> None:
    story = [change(1, "I", 1, "a"), change(2, "U", 1, "no"), change(3, "D", 1, "no"), change(4, "I", 2, "b")]
    result = called(made(on_truncate="delete"), batch(story))
    assert [one.position for one in result.named] == [1, 2]
    assert rows_of(target) == [(1, "a"), (2, "b")]


def test_an_emptied_table_waits_for_a_row_that_was_refused(target: Engine, made: Made) -> None:
    story = [change(1, "I", 1, "no"), change(2, "T"), change(3, "I", 2, "b")]
    result = called(made(on_truncate="delete"), batch(story))
    assert [one.position for one in result.named] == [0, 1, 2]
    assert rows_of(target) == []


def test_a_number_deletes_the_row_of_its_text(target: Engine, made: Made) -> None:
    write = made(table="named", key_columns=["code"], columns={"code": "id", "name": "name"})
    rows = [change(1, "I", 7, "a"), change(2, "I", "07", "b"), change(3, "D", 7, "a")]
    for at in range(3):
        write(batch(rows[at : at + 1]))
    assert rows_of(target, "SELECT code, name FROM named") == [("07", "b")]


def test_every_change_may_be_kept_with_its_operation(target: Engine, made: Made) -> None:
    columns = {"change_id": "_change", "op": "_op", "id": "id", "name": "name"}
    keep = made(table="story", mode="insert", key_columns=["change_id"], columns=columns)
    story = [change(1, "I", 1, "a"), change(2, "D", 1, "a"), change(3, "T")]
    for _ in range(2):
        assert called(keep, batch(story)).error is None
    found = rows_of(target, "SELECT change_id, op, id, name FROM story ORDER BY change_id")
    assert found == [(1, "I", 1, "a"), (2, "D", 1, "a"), (3, "T", None, None)]


def test_inserts_of_changes_need_a_column_for_the_operation(target: Engine, made: Made) -> None:
    result = called(made(mode="insert"), batch([change(1, "D", 1, "a")]))
    assert "names no column for _op" in str(result.error)
    assert rows_of(target) == []


def test_a_column_of_that_name_alone_makes_no_change_of_a_row(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/plain.db"
    plain = create_engine(url)
    with plain.begin() as connection:
        connection.execute(text("CREATE TABLE copy (id INTEGER PRIMARY KEY NOT NULL, _op VARCHAR(1))"))
    relay("sql", url=url, table="copy", key_columns=["id"])(batch_of_plain({"id": 1, "_op": "D"}))
    assert rows_of(plain, "SELECT id, _op FROM copy") == [(1, "D")]


def batch_of_plain(row: dict[str, Any]) -> Batch:
    return Batch.of_rows([row], poller_name="orders", standing=Standing(app_name="shop", through=1))


@pytest.mark.parametrize("seed", range(4))
def test_any_story_in_any_batches_ends_as_the_table_did(seed: int, target: Engine, made: Made) -> None:
    """Batches are repeated, also with another end, as after a crash or a failure."""
    dice = random.Random(seed)
    story, states = history(dice, 120)
    write, done = made(on_truncate="delete"), 0
    while done < len(story):
        applied = done
        for _ in range(dice.choice((1, 1, 2, 3))):
            end = min(len(story), done + dice.randint(1, 17))
            result = called(write, batch(story[done:end], settled=done))
            assert (result.error, result.named) == (None, ())
            applied = max(applied, end)
            assert rows_of(target) == sorted(states[applied].items()), (seed, done, end)
        done = applied


def history(dice: random.Random, length: int) -> tuple[list[dict[str, Any]], list[dict[int, str]]]:
    """Changes as triggers would write them, and the table after each number of them."""
    table: dict[int, str] = {}
    states, story = [dict(table)], []
    for number in range(1, length + 1):
        key, name = dice.randint(1, 5), f"v{number}"
        if dice.random() < 0.03:
            table.clear()
            story.append(change(number, "T"))
        elif key not in table:
            table[key] = name
            story.append(change(number, "I", key, name))
        elif dice.random() < 0.5:
            table[key] = name
            story.append(change(number, "U", key, name))
        else:
            story.append(change(number, "D", key, table.pop(key)))
        states.append(dict(table))
    return story, states
