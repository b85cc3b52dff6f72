"""The charts of a poller's page, from the history in its document: what is drawn, and what is said beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from poller.http.page import plot
from poller.http.page.plot import Bar, PlotWindow
from poller.http.page.words import NOTHING, number, rate, seconds
from poller.model.history_entry import HistoryEntry
from poller.model.when import to_the_minute

MOST_OWNERS = 6
"""Owners with a lane of their own: those that committed last."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing, and all that it says in words.

    Attributes:
        id: its name in the page. last, most: the newest value and the largest one. axis: at the top, the middle and
            the bottom. text: what it shows, in a sentence.
        heads, cells: the same as a table, newest first.
    """

    id: str
    title: str
    last: str
    most: str
    axis: tuple[str, str, str]
    text: str
    bars: Sequence[Bar] = ()
    line: str = ""
    dots: str = ""
    heads: Sequence[str] = ()
    cells: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, slots=True)
class ChartLane:
    """When one owner committed, with which fencing tokens."""

    owner: str
    tokens: str
    first: str
    last: str
    slots: int
    bars: Sequence[Bar]
    text: str


@dataclass(frozen=True, slots=True)
class Charts:
    """All charts of a poller, over one axis of time. `empty`: nothing was committed in it."""

    ticks: Sequence[str]
    charts: Sequence[Chart]
    lanes: Sequence[ChartLane]
    others: int
    empty: bool


def charts_of(slots: Sequence[HistoryEntry], now: datetime) -> Charts:
    """The charts of a history, at this moment of the store's clock."""
    window = PlotWindow.until(now)
    placed: list[HistoryEntry | None] = [None] * plot.SLOTS
    for slot in slots:
        place = window.place(slot.at)
        if place is not None:
            placed[place] = slot
    lanes, others = _lanes(placed)
    return Charts(
        ticks=[to_the_minute(tick) for tick in window.ticks],
        charts=[
            _chart("rows", "Rows per second", placed, lambda slot: slot.rows / _lasted(slot, now), rate, bars=True),
            _chart("lag", "Lag at commit", placed, lambda slot: slot.lag_seconds, seconds, bars=False),
            _chart("handler", "Handler time per batch", placed, _per_batch, seconds, bars=False),
        ],
        lanes=lanes,
        others=others,
        empty=not any(placed),
    )


def _lasted(slot: HistoryEntry, now: datetime) -> float:
    """Seconds of a slot that have passed; of the running one at least a fifth: it begins without a peak."""
    whole = plot.SLOT.total_seconds()
    return min(whole, max(whole / 5, (now - slot.at).total_seconds()))


def _per_batch(slot: HistoryEntry) -> float | None:
    return slot.handler_seconds / slot.batches if slot.batches else None


def _chart(
    id_: str,
    title: str,
    placed: Sequence[HistoryEntry | None],
    value_of: Callable[[HistoryEntry], float | None],
    words: Callable[[float | None], str],
    *,
    bars: bool,
) -> Chart:
    values = [None if slot is None else value_of(slot) for slot in placed]
    known = [value for value in values if value is not None]
    most, last = max(known, default=None), known[-1] if known else None
    if bars:  # no row is a number of rows; the running slot may only have begun
        last = next((value for value in reversed(values[-2:]) if value is not None), 0.0)
    end = (plot.end_of_axis if words is rate else plot.end_of_times)(most or 0.0)
    text = f"{title} over five hours, in slots of five minutes. "
    text += f"Last {words(last)}, largest {words(most)}." if known else "Nothing is known."
    cells = [
        (to_the_minute(slot.at), words(value), number(slot.rows), number(slot.batches))
        for slot, value in zip(reversed(placed), reversed(values), strict=True)
        if slot is not None
    ]
    return Chart(
        id=id_,
        title=title,
        last=words(last),
        most=words(most),
        axis=(words(end), words(end / 2), "0"),
        text=text,
        bars=plot.bars(values, end) if bars else (),
        line="" if bars else plot.line(values, end),
        dots="" if bars else plot.dots(values, end),
        heads=("From (UTC)", title, "Rows", "Batches"),
        cells=cells,
    )


def _lanes(placed: Sequence[HistoryEntry | None]) -> tuple[list[ChartLane], int]:
    """A lane for each owner, the last to commit first, and how many owners have none."""
    owners = list(dict.fromkeys(slot.owner for slot in reversed(placed) if slot is not None))
    return [_lane(owner, placed) for owner in owners[:MOST_OWNERS]], max(0, len(owners) - MOST_OWNERS)


def _lane(owner: str, placed: Sequence[HistoryEntry | None]) -> ChartLane:
    own = [slot for slot in placed if slot is not None and slot.owner == owner]
    low, high = min(slot.token for slot in own), max(slot.token for slot in own)
    tokens = f"token {low:,}" if low == high else f"tokens {low:,} to {high:,}"
    first, last = to_the_minute(own[0].at), to_the_minute(own[-1].at)
    return ChartLane(
        owner=owner or NOTHING,
        tokens=tokens,
        first=first,
        last=last,
        slots=len(own),
        bars=plot.runs([slot is not None and slot.owner == owner for slot in placed]),
        text=f"Committed in {len(own)} slots of five minutes, from {first} to {last} UTC.",
    )
