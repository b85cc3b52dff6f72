"""`poller.relays:sql` with `on_snapshot = "sweep"`: the target keeps its rows, and loses at E what was not named."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, text

from poller.relays import Relay, relay
from tests.integration.relays.endpoint import called
from tests.integration.relays.into import Made, batch, rows_of, with_tables

AT = datetime(2026, 4, 7, tzinfo=UTC)
TABLES = {
    "copy": "id INTEGER PRIMARY KEY NOT NULL, name VARCHAR(20), seen INTEGER, CONSTRAINT short CHECK (name <> 'no')",
    "versions": "id INTEGER PRIMARY KEY NOT NULL, name VARCHAR(20), seen INTEGER NOT NULL DEFAULT 0",
    "moments": "at TIMESTAMP(0), code VARCHAR(9), label VARCHAR(9), seen BIGINT, PRIMARY KEY (at, code)",
    "bare": "id INTEGER PRIMARY KEY NOT NULL, seen INTEGER",
    "mails": "id INTEGER PRIMARY KEY NOT NULL, name VARCHAR(20), seen INTEGER, UNIQUE (name)",
    "texts": "id INTEGER PRIMARY KEY NOT NULL, name VARCHAR(20), seen VARCHAR(20)",
}
CHILD = "id INTEGER PRIMARY KEY NOT NULL, parent INTEGER, FOREIGN KEY (parent) REFERENCES copy (id)"


@pytest.fixture
def target(engine: Engine) -> Engine:
    return with_tables(engine, {**TABLES, "child": CHILD})


@pytest.fixture
def made(made: Made) -> Made:
    """The same, of relays that sweep."""

    def make(**settings: Any) -> Relay[Any]:
        sweeping = {"snapshot_column": "seen"} if settings.get("on_snapshot", "sweep") == "sweep" else {}
        return made(**{"on_snapshot": "sweep", "on_truncate": "delete", **sweeping, **settings})

    return make


def change(number: int, op: str, id_: Any = None, name: str | None = None) -> dict[str, Any]:
    return {"id": id_, "name": name, "_op": op, "_old": None, "_change": number, "_tx": None, "_at": AT}


def fill(engine: Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for one in statements or ("INSERT INTO copy (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'stale'), (4, 'd')",):
            connection.execute(text(one))


def done(write: Relay[Any], *rows: dict[str, Any], **standing: Any) -> None:
    result = called(write, batch(list(rows), **standing))
    assert (result.error, result.named) == (None, ())


def test_the_target_keeps_its_rows_until_the_snapshot_ends(target: Engine, made: Made) -> None:
    fill(target)
    write = made()
    done(write, change(1, "B"), change(2, "R", 1, "a2"))
    assert rows_of(target) == [(1, "a2"), (2, "b"), (3, "stale"), (4, "d")]
    done(write, change(3, "U", 4, "d2"), change(4, "I", 5, "e"), change(5, "R", 2, "b"))
    assert rows_of(target) == [(1, "a2"), (2, "b"), (3, "stale"), (4, "d2"), (5, "e")]
    done(write, change(6, "E"))
    assert rows_of(target) == [(1, "a2"), (2, "b"), (4, "d2"), (5, "e")]
    done(write, change(7, "U", 5, "e2"))
    assert rows_of(target)[-1] == (5, "e2")


def test_a_whole_snapshot_may_be_one_batch(target: Engine, made: Made) -> None:
    fill(target)
    write = made()
    done(
        write,
        change(1, "U", 3, "stale2"),
        change(2, "B"),
        change(3, "R", 1, "a"),
        change(4, "E"),
        change(5, "I", 9, "n"),
    )
    assert rows_of(target) == [(1, "a"), (9, "n")], "3 was named before it began"


def test_the_next_snapshot_does_not_know_what_the_last_one_named(target: Engine, made: Made) -> None:
    write = made()
    done(write, change(1, "B"), change(2, "R", 1, "a"), change(3, "R", 2, "b"), change(4, "E"), change(5, "I", 3, "c"))
    done(write, change(1, "B"), change(2, "R", 1, "a"), change(3, "E"), generation=1)
    assert rows_of(target) == [(1, "a")]


def test_a_snapshot_that_begins_again_forgets_what_was_named(target: Engine, made: Made) -> None:
    fill(target)
    write = made()
    done(write, change(1, "B"), change(2, "R", 3, "stale"))
    done(write, change(1, "B"), change(2, "R", 1, "a"), generation=1)
    done(write, change(3, "E"), generation=1)
    assert rows_of(target) == [(1, "a")]


def test_a_snapshot_that_goes_on_after_another_deletes_nothing(target: Engine, made: Made) -> None:
    """As after `poller undo` of the reset: its first rows have no mark of the other one."""
    fill(target)
    write = made()
    done(write, change(1, "B"), change(2, "R", 1, "a"), change(3, "R", 2, "b"))
    done(write, change(1, "B"), change(2, "R", 1, "a"), generation=1)
    done(write, change(4, "R", 4, "d"), generation=2)
    done(write, change(5, "E"), generation=2)
    assert rows_of(target) == [(1, "a"), (2, "b"), (3, "stale"), (4, "d")]


@pytest.mark.parametrize("first", ["delete", "stop"])
def test_a_setting_counts_from_the_next_snapshot(first: str, target: Engine, made: Made) -> None:
    done(made(on_snapshot=first), change(1, "B"), change(2, "R", 1, "a"))
    done(made(), change(3, "R", 2, "b"), change(4, "E"))
    assert rows_of(target) == [(1, "a"), (2, "b")]


def test_rows_that_a_relay_without_marks_wrote_in_between_stay(target: Engine, made: Made) -> None:
    fill(target)
    done(made(), change(1, "B"), change(2, "R", 1, "a"))
    done(made(on_snapshot="stop"), change(3, "R", 2, "b"))
    done(made(), change(4, "R", 4, "d"), change(5, "E"))
    assert rows_of(target) == [(1, "a"), (2, "b"), (3, "stale"), (4, "d")]


def test_a_key_that_changes_is_named_by_its_new_one(target: Engine, made: Made) -> None:
    fill(target)
    done(made(), change(1, "B"), change(2, "D", 3, "stale"), change(3, "I", 7, "moved"), change(4, "E"))
    assert rows_of(target) == [(7, "moved")]


def test_an_emptied_table_in_the_middle_of_it(target: Engine, made: Made) -> None:
    fill(target)
    write = made()
    done(write, change(1, "B"), change(2, "R", 1, "a"))
    done(write, change(3, "T"))
    assert rows_of(target) == []
    done(write, change(4, "I", 2, "b"), change(5, "R", 6, "f"), change(6, "E"))
    assert rows_of(target) == [(2, "b"), (6, "f")]


def test_the_old_version_of_a_row_that_failed_stays(target: Engine, made: Made) -> None:
    """It is in the source; E comes only once the row was retried, or discarded."""
    fill(target)
    write = made()
    result = called(
        write, batch([change(1, "B"), change(2, "R", 1, "a"), change(3, "R", 2, "no"), change(4, "R", 4, "d")])
    )
    assert [one.position for one in result.named] == [2]
    wrong = [change(5, "U", 3, "no"), change(6, "R", None, "x"), change(7, "R", "word", "no")]
    assert [one.position for one in called(write, batch(wrong)).named] == [0, 1, 2]
    assert rows_of(target) == [(1, "a"), (2, "b"), (3, "stale"), (4, "d")]
    done(write, change(8, "E"))
    assert rows_of(target) == [(1, "a"), (2, "b"), (3, "stale"), (4, "d")]


def test_the_end_waits_for_rows_that_failed(target: Engine, made: Made) -> None:
    fill(target, "INSERT INTO copy (id, name) VALUES (1, 'a'), (2, 'b')")
    write = made()
    result = called(write, batch([change(1, "B"), change(2, "U", 2, "no"), change(3, "D", 2, "no"), change(4, "E")]))
    assert [one.position for one in result.named] == [1, 2, 3]
    assert rows_of(target) == [(1, "a"), (2, "b")]
    done(write, change(3, "D", 2, "no"), change(4, "E"))
    assert rows_of(target) == []


def test_an_end_that_the_target_refuses_is_named_and_comes_again(target: Engine, made: Made) -> None:
    if target.dialect.name == "sqlite":
        pytest.skip("SQLite checks foreign keys only if a connection asks for it")
    fill(target)
    fill(target, "INSERT INTO child (id, parent) VALUES (1, 3)")
    write, ending = made(), [change(4, "R", 4, "d"), change(5, "E"), change(6, "I", 7, "g")]
    done(write, change(1, "B"), change(2, "R", 1, "a"), change(3, "R", 2, "b"))
    result = called(write, batch(ending))
    assert [one.position for one in result.named] == [1, 2]
    assert (3, "stale") in rows_of(target)
    fill(target, "DELETE FROM child")
    done(write, *ending)
    assert rows_of(target) == [(1, "a"), (2, "b"), (4, "d"), (7, "g")]


def test_an_older_version_is_named_and_not_written(target: Engine, made: Made) -> None:
    fill(target, "INSERT INTO versions (id, name) VALUES (1, 'v5'), (2, 'v5'), (3, 'v5')")
    write = made(table="versions", version_column="name")
    done(write, change(1, "B"), change(2, "R", 1, "v4"), change(3, "R", 2, "v6"), change(4, "E"))
    assert rows_of(target, "SELECT id, name FROM versions ORDER BY id") == [(1, "v5"), (2, "v6")]


def test_a_table_that_is_its_key_alone(target: Engine, made: Made) -> None:
    fill(target, "INSERT INTO bare (id) VALUES (1), (2)")
    done(made(table="bare", columns={"id": "id"}), change(1, "B"), change(2, "R", 2), change(3, "E"))
    assert rows_of(target, "SELECT id FROM bare") == [(2,)]


def test_a_key_that_the_columns_round_or_compare_without_case(target: Engine, made: Made) -> None:
    """No key is compared: what the upsert wrote is named."""
    settings = {"columns": {"at": "at", "code": "id", "label": "name"}, "key_columns": ["code", "at"]}
    write, moment = made(table="moments", **settings), datetime(2026, 4, 7, 12, 0, 0, 700_000)
    story = [{**change(2, "R", "Ab", "x"), "at": moment}, {**change(3, "R", "zz", "y"), "at": moment}]
    ends = [{**change(1, "B"), "at": None}, {**change(4, "E"), "at": None}]
    done(write, ends[0], *story, ends[1])
    assert rows_of(target, "SELECT code, label FROM moments ORDER BY code") == [("Ab", "x"), ("zz", "y")]
    story[0]["id"] = "AB" if target.dialect.name in ("mysql", "mariadb") else "Ab"
    done(write, ends[0], story[0], ends[1], generation=1)
    assert rows_of(target, "SELECT code, label FROM moments ORDER BY code") == [("Ab", "x")]


def test_several_lanes(target: Engine, made: Made) -> None:
    fill(target)
    write = made()
    done(write, change(1, "B"), lanes=2)
    done(write, change(2, "R", 1, "a"), lanes=2, lane=0)
    done(write, change(3, "R", 2, "b"), lanes=2, lane=1)
    done(write, change(4, "E"), lanes=2, lane=1)
    assert rows_of(target) == [(1, "a"), (2, "b")]


def test_a_column_that_is_missing_or_of_another_type_is_refused(target: Engine, made: Made) -> None:
    absent = called(made(snapshot_column="mark"), batch([change(1, "B")]))
    assert '`relay.snapshot_column` names "mark" of the table copy, which is not there' in str(absent.error)
    assert "ADD COLUMN mark INTEGER" in str(absent.error)
    other_type = str(called(made(table="texts"), batch([change(1, "B")])).error)
    assert "which is not INTEGER" in other_type
    assert "ADD COLUMN" not in other_type, "there is one of that name"
    found = made(table="texts").checkup()[-1]
    assert (found.severity, "`relay.snapshot_column`" in found.message) == ("error", True)


def test_rows_that_fill_the_column_are_refused(target: Engine, made: Made) -> None:
    row = {**change(1, "B"), "seen": None}
    assert "is a column that rows fill" in str(called(made(), batch([row])).error)
    done(made(columns={"id": "id", "name": "name"}), row)


def test_further_unique_keys(target: Engine, made: Made) -> None:
    found = made(table="mails").checkup()[-1]
    if target.dialect.name in ("mysql", "mariadb"):
        assert "further unique keys" in found.message
        assert 'on_snapshot = "delete"' in str(called(made(table="mails"), batch([change(1, "B")])).error)
    else:
        assert (found.severity, "further unique keys" in found.message) == ("warn", True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"snapshot_column": None}, "is missing"),
        ({"on_snapshot": "stop", "snapshot_column": "seen"}, "only with on_snapshot"),
        ({"mode": "insert"}, "nothing is deleted"),
        ({"snapshot_column": "id"}, "a column that rows fill"),
        ({"columns": {"id": "id", "seen": "name"}}, "a column that rows fill"),
    ],
)
def test_settings_that_do_not_fit(wrong: dict[str, Any], said: str) -> None:
    given = {"url": "sqlite://", "table": "copy", "key_columns": ["id"], "on_snapshot": "sweep"}
    with pytest.raises(Exception, match=said):
        relay("sql", **{**given, "snapshot_column": "seen", **wrong})


@pytest.mark.parametrize("seed", range(6))
def test_any_story_in_any_batches_keeps_what_the_source_has(seed: int, target: Engine, made: Made) -> None:
    """Snapshots begin, break off and end between changes. Batches come again with another end, as after a crash."""
    dice = random.Random(seed)
    table = {key: f"v{key}" for key in range(1, 9)}
    fill(target, *(f"INSERT INTO copy (id, name) VALUES ({key}, 'old')" for key in (1, 3, 5, 7, 21, 22)))
    write = made()
    for generation in range(3):
        story, states = snapshot(dice, table, ends=generation != 1)
        at = 0
        while at < len(story):
            applied = at
            for _ in range(dice.choice((1, 1, 2, 3))):
                end = min(len(story), at + dice.randint(1, 9))
                done(write, *story[at:end], settled=at, generation=generation)
                applied = max(applied, end)
                there, source = dict(rows_of(target)), states[applied]
                named = {row["id"] for row in story[:applied] if row["_op"] in "IUR"} & source.keys()
                assert all(there.get(key) == source[key] for key in named), (seed, generation, at, end)
                if story[applied - 1]["_op"] == "E":
                    assert there == source
            at = applied
        fill(target, f"DELETE FROM copy WHERE id = {30 + generation}")
        fill(target, f"INSERT INTO copy (id, name) VALUES ({30 + generation}, 'stale')")


def snapshot(
    dice: random.Random, table: dict[int, str], *, ends: bool
) -> tuple[list[dict[str, Any]], list[dict[int, str]]]:
    """A snapshot in the order of keys, with changes between; and the table after each row of it."""
    story, states = [change(1, "B")], [dict(table), dict(table)]
    after = 0

    def add(op: str, key: int | None = None) -> None:
        story.append(change(len(story) + 1, op, key, None if key is None else table.get(key)))
        if op == "D" and key is not None:
            del table[key]
        states.append(dict(table))

    while any(key > after for key in table) and (ends or len(story) < 8):
        if dice.random() < 0.6:
            after = min(key for key in table if key > after)
            add("R", after)
        elif dice.random() < 0.05:
            table.clear()
            add("T")
        else:
            key = dice.randint(1, 12)
            if key in table and dice.random() < 0.5:
                add("D", key)
            else:
                op = "U" if key in table else "I"
                table[key] = f"w{len(story)}"
                add(op, key)
    if ends:
        add("E")
    return story, states
