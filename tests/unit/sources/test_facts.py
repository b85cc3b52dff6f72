"""What follows when what a cursor rests on changes: enumerated, and compared with how rows sort."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from poller.model.cursor import Cursor
from poller.sources.columns import CursorColumn, Family
from poller.sources.facts import Does, Guarantee, TableFacts, judge, tie_of
from tests.support.cases import each

AT = CursorColumn("at", Family.TIMESTAMPTZ, "timestamp with time zone")
ID = CursorColumn("id", Family.INTEGER, "integer")
FACTS = TableFacts(AT, (ID,), server="1/1", object="oid 7", guarantee=Guarantee("exact"))
CURSOR = Cursor(kind="timestamp+pk", value="2026-01-01T00:00:00.500000Z", tiebreaker={"id": 7})
NUMBER = Cursor(kind="integer+pk", value="500", tiebreaker={"id": 500})


def _folded(value: Any) -> Any:
    return unicodedata.normalize("NFKD", str(value)).casefold(), str(value)


NUMBERS: dict[str, tuple[CursorColumn, Callable[[Any], Any]]] = {
    "smallint": (replace(ID, sql_type="smallint"), int),
    "integer": (ID, int),
    "bigint": (replace(ID, sql_type="bigint"), int),
    "numeric": (CursorColumn("id", Family.NUMERIC, "numeric"), Decimal),
    "decimal(10, 0)": (CursorColumn("id", Family.NUMERIC, "DECIMAL(10, 0)"), Decimal),
    "decimal(20, 2)": (CursorColumn("id", Family.NUMERIC, "DECIMAL(20, 2)"), Decimal),
    "text by code": (CursorColumn("id", Family.TEXT, "text", collation="C"), str),
    "varchar by code": (CursorColumn("id", Family.TEXT, "character varying", collation="C"), str),
    "text by language": (CursorColumn("id", Family.TEXT, "text", collation="en-x-icu 153.14"), _folded),
    "text by a later language": (CursorColumn("id", Family.TEXT, "text", collation="en-x-icu 160"), _folded),
}
"""Types of a key that holds integers: a column, and what the database sorts by."""


@pytest.mark.guarantee(
    "Rows that commit late",
    "A table that changes between two pages or across a restart loses no row in silence: a key that sorts otherwise "
    "or a cursor with fewer digits begins its tie again, another table goes on only with the row at the checkpoint, "
    "a worse guarantee waits and says what ends it, hidden rows are refused",
)
@each(("was", "now"), list(itertools.product(NUMBERS, NUMBERS)))
def test_a_cursor_goes_on_only_where_its_keys_sort_as_they_did(was: str, now: str) -> None:
    (old, sorts), (new, sorted_now) = NUMBERS[was], NUMBERS[now]
    verdict = judge(replace(FACTS, keys=(old,)), replace(FACTS, keys=(new,)), CURSOR)
    values = [3, 20, 100]
    if verdict.does is Does.GO_ON:
        assert sorted(values, key=sorts) == sorted(values, key=sorted_now)
        assert new.collation in (None, old.collation)
    else:
        assert (verdict.does, verdict.replaced, verdict.column) == (Does.REPEAT, False, "id")
        assert verdict.cursor == CURSOR.model_copy(update={"tiebreaker": None})
    if was == now:
        assert verdict.does is Does.GO_ON


@each(
    ("was", "now"),
    [
        ("smallint", "integer"),
        ("integer", "bigint"),
        ("bigint", "numeric"),
        ("decimal(10, 0)", "decimal(20, 2)"),
        ("varchar by code", "text by code"),
    ],
)
def test_a_type_that_holds_all_values_in_order_repeats_nothing(was: str, now: str) -> None:
    old, new = NUMBERS[was][0], NUMBERS[now][0]
    assert judge(replace(FACTS, keys=(old,)), replace(FACTS, keys=(new,)), CURSOR).does is Does.GO_ON


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"


def _rounded(moment: datetime, digits: int) -> datetime:
    """As a column of fewer digits holds it: the nearest."""
    unit = timedelta(microseconds=10 ** (6 - digits))
    passed = moment - datetime(2026, 1, 1)
    return datetime(2026, 1, 1) + ((passed + unit / 2) // unit) * unit


@each(("was", "now"), list(itertools.permutations((0, 3, 6), 2)))
def test_a_tie_begins_before_all_that_may_be_rounded_into_it(was: int, now: int) -> None:
    times = [datetime(2026, 1, 1) + timedelta(milliseconds=n * 137, microseconds=n % 7) for n in range(60)]
    times = [_rounded(one, was) for one in times]
    old, new = (replace(FACTS, cursor=replace(AT, digits=digits)) for digits in (was, now))
    for at in times:
        cursor = CURSOR.model_copy(update={"value": _text(at)})
        verdict = judge(old, new, cursor)
        assert verdict.does is (Does.GO_ON if now > was else Does.REPEAT)
        if verdict.cursor is not None:
            assert verdict.cursor.tiebreaker is None
            assert all(_text(_rounded(one, now)) >= verdict.cursor.value for one in times if one >= at)
            begins = datetime.fromisoformat(verdict.cursor.value).replace(tzinfo=None)
            assert at - begins < timedelta(microseconds=10 ** (6 - now)), "one unit at most comes again"
            assert judge(old, new, verdict.cursor).cursor == verdict.cursor, "it begins there again after a crash"


def test_numbers_that_lose_places_begin_below_what_may_be_rounded() -> None:
    old, new = (CursorColumn("n", Family.NUMERIC, f"DECIMAL(20, {places})") for places in (4, 1))
    cursor = Cursor(kind="integer+pk", value="7.1999", tiebreaker={"id": 1})
    found = judge(replace(FACTS, cursor=old), replace(FACTS, cursor=new), cursor)
    assert (found.does, found.cursor) == (Does.REPEAT, tie_of(cursor, new))
    assert found.cursor is not None
    assert found.cursor.value == "7.1"


@each(
    "now",
    [
        CursorColumn("at", Family.TIMESTAMP, "timestamp without time zone"),
        CursorColumn("at", Family.DATE, "date"),
        CursorColumn("at", Family.TEXT, "text"),
        CursorColumn("at", Family.INTEGER, "bigint"),
    ],
)
def test_a_cursor_of_another_family_is_refused(now: CursorColumn) -> None:
    found = judge(FACTS, replace(FACTS, cursor=now), CURSOR)
    assert (found.does, found.column) == (Does.REFUSE, "at")
    assert "poller rebind" in found.step
    assert judge(FACTS, replace(FACTS, cursor=now), None).does is Does.GO_ON, "nothing was delivered"


KINDS = ("none", "heuristic", "observed", "observed-strict", "exact")


@each(("was", "now"), list(itertools.product(range(5), range(5))))
@each("cursor", [None, CURSOR])
def test_a_guarantee_never_gets_worse_without_a_word(was: int, now: int, cursor: Cursor | None) -> None:
    old = replace(FACTS, guarantee=Guarantee(KINDS[was]))
    new = replace(FACTS, guarantee=Guarantee(KINDS[now], "GRANT this"))
    found = judge(old, new, cursor)
    assert found.does is (Does.WAIT if now < was else Does.GO_ON)
    assert now >= was or "GRANT this" in found.why
    asked = replace(FACTS, guarantee=Guarantee(KINDS[now], asked=True))
    assert judge(old, asked, cursor).does is Does.GO_ON, "a person accepted it"


@each(("was", "now"), list(itertools.product(("1/1", "1/2", "2/1", None), repeat=2)))
def test_another_server_waits_if_numbers_may_be_handed_out_again(was: str | None, now: str | None) -> None:
    old, new = replace(FACTS, server=was), replace(FACTS, server=now)
    assert judge(old, new, CURSOR).does is Does.GO_ON
    assert judge(old, new, None).does is Does.GO_ON
    found = judge(old, new, NUMBER)
    assert found.does is (Does.WAIT if None not in (was, now) and was != now else Does.GO_ON)
    assert found.does is Does.GO_ON or "--after-failover" in found.step


@each(
    ("was", "now", "another"),
    [
        ("oid 7", "oid 7", False),
        ("oid 7", "oid 8", True),
        ("oid 7", None, False),
        (None, "oid 7", False),
        ("created 1", "created 2", True),
        ("number 5, created 1", "number 5, created 2", False),
        ("number 5, created 1", "number 6, created 1", True),
        ("number 5, created 1", "created 1", False),
        ("number 5, created 1", "created 2", True),
    ],
)
def test_another_object_needs_the_row_at_the_checkpoint(was: str | None, now: str | None, another: bool) -> None:
    old, new = replace(FACTS, object=was), replace(FACTS, object=now)
    assert judge(old, new, None).does is Does.GO_ON
    assert judge(old, new, CURSOR).does is (Does.LOOK if another else Does.GO_ON)
    if another:
        assert judge(old, new, CURSOR, same_row=False).does is Does.REFUSE
        found = judge(old, new, CURSOR, same_row=True)
        assert (found.does, found.replaced) == (Does.REPEAT, True)


def test_what_stands_above_all_else_is_said_first() -> None:
    """Where rows would be skipped, no other verdict may hide it."""
    worse = Guarantee("heuristic")
    other = replace(FACTS, cursor=replace(AT, family=Family.DATE), object="oid 8", guarantee=worse)
    assert judge(FACTS, other, CURSOR).does is Does.REFUSE
    other = replace(FACTS, keys=(NUMBERS["text by code"][0],), guarantee=worse)
    assert judge(FACTS, other, CURSOR).does is Does.WAIT
