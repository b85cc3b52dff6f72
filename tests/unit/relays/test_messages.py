"""A row as JSON, its id, and rows that a target does not take."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from ipaddress import ip_network
from typing import Any

import pytest

from poller import Batch, Standing
from poller.relays.messages import LONGEST_PAUSE, json_bytes, message_id, plain, readable, retry_later


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.guarantee(
    "Delivery",
    "What relays send loses nothing of a value, and a version of a row has one id in every delivery",
)
@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, None),
        (True, True),
        (2**70, 2**70),
        (0.1, 0.1),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Decimal("12.50"), "12.50"),
        (Decimal("NaN"), "NaN"),
        (date(2026, 4, 7), "2026-04-07"),
        (time(1, 23, 45, 5), "01:23:45.000005"),
        (datetime(2026, 4, 7, 1, 2, 3, 4), "2026-04-07T01:02:03.000004"),
        (datetime(2026, 4, 7, tzinfo=UTC), "2026-04-07T00:00:00+00:00"),
        (datetime(2026, 4, 7, tzinfo=timezone(timedelta(hours=2))), "2026-04-07T00:00:00+02:00"),
        (timedelta(days=1, hours=2, microseconds=5), "PT93600.000005S"),
        (timedelta(seconds=-1), "-PT1.000000S"),
        (b"\x00\xff", "AP8="),
        (memoryview(b"a"), "YQ=="),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([Decimal(1), (None, b"a")], ["1", [None, "YQ=="]]),
        ({"a": {"b": date(2026, 1, 1)}}, {"a": {"b": "2026-01-01"}}),
        (Colour.RED, "red"),
        (Size.LARGE, 3),
        (ip_network("10.0.0.0/8"), "10.0.0.0/8"),
        ("\u2028\x00 ü", "\u2028\x00 ü"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_keeps_all_that_it_says(value: Any, written: Any) -> None:
    found = json.loads(json_bytes(plain({"v": value})))
    assert found == {"v": written}
    assert type(found["v"]) is type(written)


def test_half_a_surrogate_pair_is_escaped_and_not_lost() -> None:
    assert json.loads(json_bytes(plain({"v": "a\ud800"}))) == {"v": "a\ud800"}


def batch(rows: list[dict[str, Any]], *, poller: str = "orders", app: str = "shop") -> Batch:
    return Batch.of_rows(rows, poller_name=poller, standing=Standing(app_name=app, through=len(rows)))


def test_the_id_of_a_version_is_the_same_on_a_retry_and_no_others() -> None:
    def of(made: Batch) -> str:
        return message_id(made, made.rows[0])

    first = of(batch([{"id": 1}]))
    assert of(batch([{"id": 1}])) == first
    others = [
        batch([{"id": 2}]),
        batch([{"id": 1, "updated_at": 2}]),
        batch([{"id": 1}], poller="b"),
        batch([{"id": 1}], app="b"),
    ]
    assert len({first, *map(of, others)}) == 5


def test_a_row_without_a_text_is_rejected_and_the_others_go() -> None:
    made = batch([{"id": 1, "v": Unspeakable()}, {"id": 2}])
    assert [row["id"] for row, _ in readable(made, {})] == [2]
    assert [(one.position, one.rejected) for one in made.failures] == [(0, True)]


@pytest.mark.parametrize(
    ("asked", "waited"),
    [(None, 30), (7.0, 7), (0.0, 1), (1e9, LONGEST_PAUSE), (float("nan"), 30)],
    ids=["unsaid", "said", "at-once", "for-years", "nonsense"],
)
def test_a_targets_own_pause_is_followed_within_bounds(asked: float | None, waited: float) -> None:
    assert retry_later("the queue is down", asked).after == timedelta(seconds=waited)
