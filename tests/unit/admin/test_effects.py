"""Which way a cursor lies, and what a move does to rows, where the database decides and where it does not."""

from __future__ import annotations

from typing import Any

from poller.admin.effects import BACK, FORWARD, SAME, direction, measure
from poller.errors import SourceUnavailable
from poller.model.cursor import Cursor, CursorKind
from poller.ports import Bound
from poller.sources import SqlSource
from tests.support.cases import each


def cursor(value: str, key: dict[str, int | str] | None = None, kind: CursorKind = "timestamp+pk") -> Cursor:
    return Cursor(kind=kind, value=value, tiebreaker=key)


EARLY, LATE = "2026-01-01T00:00:00.000000Z", "2026-01-02T00:00:00.000000Z"


@each(
    ("one", "other", "way"),
    [
        (None, cursor(EARLY), FORWARD),
        (cursor(EARLY), None, BACK),
        (None, None, SAME),
        (cursor(EARLY), cursor(LATE), FORWARD),
        (cursor(LATE, {"id": 1}), cursor(EARLY, {"id": 9}), BACK),
        (cursor(EARLY, {"id": 9}), cursor(EARLY, {"id": 10}), FORWARD),
        (cursor(EARLY, {"id": 10}), cursor(EARLY, {"id": 9}), BACK),
        (cursor(EARLY), cursor(EARLY, {"id": 1}), FORWARD),
        (cursor(EARLY, {"id": 1}), cursor(EARLY), BACK),
        (cursor(EARLY, {"id": "a"}), cursor(EARLY, {"id": "B"}), None),
        (cursor("9"), cursor("10"), FORWARD),
        (cursor("-10"), cursor("-9"), FORWARD),
        (cursor("00ff"), cursor("0100"), FORWARD),
        (cursor("-infinity"), cursor(EARLY), FORWARD),
        (cursor(LATE), cursor("infinity"), FORWARD),
        (cursor("infinity"), cursor(LATE), BACK),
        (cursor("2026-01-01 00:00:00"), cursor("2026-01-01 00:00:00.5"), FORWARD),
        (cursor("2026-01-01T01:00:00+02:00"), cursor("2026-01-01T00:00:00+00:00"), FORWARD),
        (cursor("2026-01-01T00:00:00"), cursor(EARLY), None),
        (cursor("0044-03-15T00:00:00 BC"), cursor("0045-03-15T00:00:00 BC"), None),
        (cursor("10000-01-01T00:00:00"), cursor("9999-01-01T00:00:00"), None),
        (cursor("monday"), cursor("friday"), None),
    ],
)
def test_the_way_is_known_only_where_the_texts_decide_it(
    one: Cursor | None, other: Cursor | None, way: int | None
) -> None:
    assert direction(one, other) == way


class Rows(SqlSource):
    """A database with so many rows one way and the other."""

    inclusive = False

    def __init__(
        self, again: int = 0, ahead: int = 0, bound: str | None = None, down: bool = False, slow: bool = False
    ) -> None:
        super().__init__("sqlite://", table="orders", cursor_column="at", cursor_time_zone="UTC", pk_columns=["id"])
        self.counts = {"again": again, "ahead": ahead}
        self.limit = bound
        self.down = down
        self.slow = slow

    def count_between(self, low: Cursor | None, high: Cursor | None, *, cap: int) -> tuple[int, bool]:
        if self.down or (self.slow and cap > 10_000):
            raise SourceUnavailable("The database does not answer.")
        count = self.counts["ahead" if low == cursor(EARLY) else "again"]
        return min(count, cap), count > cap

    def bound(self) -> Bound:
        return Bound("exact", value=self.limit, inclusive=self.inclusive)


def moved(rows: Rows, after: Cursor | None = None, **more: Any) -> Any:
    return measure(rows, cursor(EARLY), after or cursor(LATE), **more)


def test_rows_forward_are_skipped_and_rows_back_come_again() -> None:
    effect = moved(Rows(ahead=3))
    assert (effect.skipped, effect.redelivered, effect.skips) == (3, 0, True)
    effect = moved(Rows(again=3))
    assert (effect.skipped, effect.redelivered, effect.skips) == (0, 3, False)
    below = "2026-01-03T00:00:00.000000Z"
    assert moved(Rows(ahead=336_776, bound=below)).lines() == ["336,776 rows will never be delivered"], (
        "as backfill says"
    )
    assert moved(Rows(ahead=1_000_001, bound=below)).lines() == ["1,000,000 or more rows will never be delivered"]
    slow = Rows(ahead=336_776, bound=below, slow=True)
    assert moved(slow).lines() == ["10,000 or more rows will never be delivered"], "what it can count in time"


def test_an_empty_stretch_is_safe_only_below_the_bound() -> None:
    assert moved(Rows(bound="2026-01-03T00:00:00.000000Z")).skips is False
    for bound in (LATE, EARLY, None):
        assert moved(Rows(bound=bound)).open_ended is True, bound


def test_at_an_inclusive_bound_nothing_can_appear_any_more() -> None:
    rows = Rows(bound=LATE)
    assert moved(rows).open_ended is True
    rows.inclusive = True
    assert moved(rows).open_ended is False


def test_what_is_not_counted_is_skipping_unless_it_goes_back() -> None:
    assert moved(Rows(down=True)).skips is True
    assert moved(Rows(down=True), cursor("monday")).skips is True
    assert moved(Rows(down=True), cursor("2025-01-01T00:00:00.000000Z")).skips is False
    assert measure(Rows(down=True), cursor(LATE), None).redelivered is None
    assert moved(Rows(again=3), foreign=True).skips is True
    assert measure(Rows(), cursor(LATE), None, foreign=True).skips is False
