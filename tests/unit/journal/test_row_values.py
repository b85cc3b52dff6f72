"""A row's values as JSON, and back."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from poller.journal.quarantine.values import NotRecordable, from_json, to_json
from poller.model.limits import read_json
from poller.ports import IntervalText, JsonText

BERLIN = ZoneInfo("Europe/Berlin")


def back(value: Any) -> Any:
    """By way of the bytes of a document, read within its limits."""
    values, kinds = to_json({"column": value})
    read = read_json(json.dumps({"row": values, "kinds": kinds}, ensure_ascii=False).encode())
    return from_json(read["row"], read["kinds"])["column"]


def deep(levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -1, 2**63, 10**38, 10**400, -(10**5000), 0.1, -0.0, 1e300, float("inf"), float("-inf"),
        "", "a\nb\x00c", "東京 \U0001f680\u2028\u202e", "half \ud800 of a pair", '{"not": "json"}', "$decimal",
        Decimal("1.10"), Decimal("-0.00"), Decimal("1E+400"), Decimal("Infinity"), Decimal(2) ** 200,
        b"", b"\x00\xff", bytearray(b"\xfe"),
        date(1, 1, 1), time(23, 59, 59, 999999), datetime(9999, 12, 31, 23, 59, 59, 999999),
        datetime(2026, 4, 7, tzinfo=UTC), datetime(2026, 4, 7, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
        timedelta(days=-5, seconds=3, microseconds=7), timedelta.max, timedelta.min,
        UUID(int=7), ip_address("10.0.0.1"), ip_address("::1"), ip_interface("10.0.0.1/8"), ip_network("fe80::/10"),
        [], {}, [1, [None, {"a": "b"}]], {"$ref": "x"}, {"$decimal": "1"}, [Decimal("1.5"), None], (1, b"x"),
        {"$ref": Decimal(1)}, {1: 2, None: date(2026, 1, 1)}, {"price": {"net": Decimal("1.0")}}, [float("inf")],
        JsonText('{"a": 1.10}'), JsonText("null"), [JsonText("null"), None, IntervalText("1 mon")],
        deep(39, 1), deep(60, 1), deep(60, Decimal("1.0")), [["half \ud800"]], {"\ud800": 1},
    ],
    ids=lambda value: ascii(type(value).__name__),
)  # fmt: skip
def test_values_come_back_exactly(value: Any) -> None:
    there = back(value)
    assert type(there) is type(value)
    assert repr(there) == repr(value) if type(value) is not int else there == value


def test_what_is_not_a_number_comes_back_so() -> None:
    assert repr([back(float("nan")), back(Decimal("NaN")), back(Decimal("sNaN12"))]) == (
        "[nan, Decimal('NaN'), Decimal('sNaN12')]"
    )


@pytest.mark.parametrize("fold", [0, 1])
def test_a_moment_keeps_its_zone_and_its_fold(fold: int) -> None:
    there = back(datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=fold))
    assert (there.tzinfo, there.fold, there.utcoffset()) == (BERLIN, fold, timedelta(hours=2 - fold))


def test_a_view_of_memory_comes_back_as_bytes() -> None:
    assert back(memoryview(b"abc")) == b"abc"


def test_other_types_come_back_as_their_text() -> None:
    class Range:
        def __str__(self) -> str:
            return "[1,3)"

    class Name(str):
        __slots__ = ()

    assert (back(Range()), back([Range()]), type(back(Name("x")))) == ("[1,3)", ["[1,3)"], str)


def test_a_value_without_a_text_is_refused_unquoted() -> None:
    class Secret:
        def __str__(self) -> str:
            raise RuntimeError("password=hunter2")

    with pytest.raises(NotRecordable) as refused:
        to_json({"column": Secret()})
    assert "hunter2" not in str(refused.value)


def test_levels_beyond_any_limit_are_refused() -> None:
    with pytest.raises(NotRecordable):
        to_json({"column": deep(100_000, Decimal(1))})


@pytest.mark.parametrize(
    ("kind", "value"),
    [("decimal", "x"), ("decimal", 5), ("bytes", "zz"), ("nested", {"$decimal": "x"}), ("nested", {"$no": "x"}),
     ("nested", {"$object": [1]}), ("deep", "[" * 100_000), ("json", "{"), ("interval", "999999999d 1.000000s!"),
     ("no such kind", "x"), ("datetime", "2026-13-01"), ("utf-8", "ff"), ("ipv4", "1")],
)  # fmt: skip
def test_values_that_somebody_changed_are_refused_unquoted(kind: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"^a value is not of its kind$"):
        from_json({"column": value}, {"column": kind})
