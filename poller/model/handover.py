"""What is handed over next (failures 2, 3, 6 and 7).

A tick goes round: `plan` chooses rows of the page, `begun` is part of the PUT before the call; `judging.judge` says
what follows from what the handler did, and `verdict.ended` is the PUT after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from typing import Literal, TypeAlias

from poller.model import aside, backoff, lanes, transitions, window
from poller.model.aside import Limits, RowFacts
from poller.model.cursor import Cursor
from poller.model.document import State, WaitingRow, Window
from poller.model.limits import LARGEST_BODY

Mode: TypeAlias = Literal["block", "halt", "quarantine"]
"""`on_poison`: what happens to the row that fails."""
Reach: TypeAlias = Mapping[tuple[object, ...], int]
"""The number of rows of the page that are at or before each cursor that `concerned` names, by its `place`. The database
compares, never this library; the reader asks it before a plan is made."""
MOST_LISTED = 1000
"""So many rows at most a report may list: no call gets more, less those that are listed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done next with the rows behind the checkpoint.

    Attributes:
        rows: handed over in one call; empty if none need to be.
        passes: the rows that are passed if all goes well, in order: those handed over, following and listed.
        follows: of those passed, the ones that wait behind an earlier row of their key.
        gone: ids of listed rows that the table has no more and whose place is passed, each with how many rows of the
            plan stand before it.
        drops: ids of listed rows whose newer version is passed; gone by the PUT before the call.
        done: of the rows passed, those that a lane has done already.
        lanes: how many of the rows passed stand up to the last row that a lane has done.
        window: as that PUT stores it.
        last: nothing of the window is left behind the rows passed.
        killed: the row alone was handed over before, and its process ended: it is not called again before that counts.
        blocked: nothing can be done until a person makes room in the list, or settles all rows if `alone`.
        alone: its row concerns those of every key, and is handed over while no other waits.
        space: bytes that the document has left for rows that are listed, beside those that follow.
        crowded: for several lanes, and the document has no space for what they say of rows with cursors this long.
    """

    rows: Sequence[RowFacts] = ()
    passes: Sequence[RowFacts] = ()
    follows: tuple[RowFacts, ...] = ()
    gone: tuple[tuple[str, int], ...] = ()
    drops: tuple[str, ...] = ()
    done: tuple[RowFacts, ...] = ()
    lanes: int = 0
    window: Window | None = None
    last: bool = True
    killed: bool = False
    blocked: bool = False
    alone: bool = False
    space: int = LARGEST_BODY
    crowded: bool = False

    @property
    def is_plain(self) -> bool:
        """True if all rows passed are handed over, and no listed row is concerned: then the next plan needs no more of
        the PUT after the call than where the checkpoint stands."""
        return len(self.rows) == len(self.passes) and not (self.gone or self.drops)

    @property
    def is_for_lanes(self) -> bool:
        """True if its rows may be handed over in several lanes: whatever else is passed is listed or done already."""
        others = self.follows or self.gone or self.drops or self.window is not None or self.blocked
        return bool(self.rows) and not others and not self.crowded

    def part(self, begin: int, end: int) -> Plan:
        """The rows passed from one place to another, of a plan for lanes; which of them are handed over is not said."""
        return Plan(passes=self.passes[begin:end], lanes=max(0, self.lanes - begin))

    def count(self, passes: int) -> int:
        """The number of positions that the first `passes` rows take."""
        return passes + sum(1 for _, before in self.gone if before < passes)

    def places(self, passes: int) -> dict[str, int]:
        """Where each row stands among those that the first `passes` rows pass, from 1: each by its id, with listed rows
        that the table has no more at their place."""
        order: list[str] = []
        for index, row in enumerate(self.passes[:passes]):
            order.extend(id_ for id_, before in self.gone if before == index)
            order.append(row.id)
        return {id_: place for place, id_ in enumerate(order, 1)}


def concerned(state: State, rows: Sequence[RowFacts]) -> Iterator[Cursor]:
    """The cursors of the document whose place among the rows a plan needs."""
    standing = window.standing(state)
    if standing is not None:
        yield from (standing.until, standing.suspect)
        if standing.piece is not None:
            yield standing.piece
    yield from (cursor for cursor in lanes.done_up_to(state) if cursor is not None)
    listed = [row for row in aside.listed(state).values() if row.at is None]
    here = {row.id for row in rows} if listed else ()
    yield from (row.cursor for row in listed if row.id not in here)


def plan(
    state: State,
    rows: Sequence[RowFacts],
    reach: Reach,
    *,
    mode: Mode,
    limits: Limits,
    entering: bool = False,
    several: int = 1,
) -> Plan:
    """Choose from the rows behind the checkpoint, at most a batch of them, in cursor order.

    `entering`: before the acquire, if the attempts of the pending batch and a piece that was killed count.
    `several`: the number of lanes; each takes some of the rows.
    """
    standing = window.standing(state)
    until = reach[standing.until.place] if standing is not None else 0
    if standing is not None and until == 0:
        standing = None  # its rows have gone
    within = window.searchable(rows[:until]) if standing is not None else rows
    if standing is not None and not within:
        standing, within = None, rows
    space = LARGEST_BODY
    if mode == "quarantine" or aside.waiting(state) > 0:
        space = aside.space(state, rows) if several == 1 else aside.space_of_lanes(state, rows, several)
    sorted_ = _Sorted(state, within, reach, limits, space=space)
    suspect = 0
    if standing is not None:
        standing = window.count_interrupted_try(standing)
        suspect = reach[standing.suspect.place]
    elif entering and state.delivery.attempts >= limits.max_attempts and window.searchable(rows):
        within = window.searchable(rows)
        if len(within) < len(rows):
            sorted_ = _Sorted(state, within, reach, limits, space=sorted_.space)
        suspect = (sorted_.hands[-1] if sorted_.hands else len(within) - 1) + 1
        standing = window.opened(state, until=within[-1].cursor, suspect=within[suspect - 1].cursor)
    chosen, end = _chosen(sorted_, suspect)
    if mode == "quarantine":
        many = aside.failing(state) >= limits.max_aside or sorted_.room <= 0
        most = 1 if many else max(1, MOST_LISTED - len(state.aside) - len(state.quarantine))
        most = min(most, _fitting(within, chosen[:most], sorted_.space))
        if len(chosen) > most:
            chosen, end = chosen[:most], chosen[most - 1] + 1
    killed = False
    if standing is not None:
        killed = bool(chosen) and standing.piece is not None and within[chosen[-1]].cursor == standing.piece
        killed = killed and len(chosen) == 1
        if chosen:
            standing = window.named(standing, piece=within[chosen[-1]].cursor, alone=len(chosen) == 1)
        elif standing.piece is not None:
            standing = standing.model_copy(update={"piece": None})
    return Plan(
        rows=within[: len(chosen)] if isinstance(chosen, range) else tuple(within[index] for index in chosen),
        passes=within[:end],
        follows=tuple(within[index] for index in sorted_.follows if index < end),
        gone=tuple((id_, before) for id_, before in sorted_.gone.items() if before < end),
        drops=tuple(id_ for index, id_ in sorted_.drops if index < end),
        done=tuple(within[index] for index in sorted(sorted_.done) if index < end),
        lanes=sorted_.lanes,
        window=standing,
        last=standing is None or end >= len(within),
        killed=killed,
        blocked=bool(within) and end == 0,
        space=sorted_.space,
        crowded=several > 1 and mode == "quarantine" and sorted_.space < aside.largest_entry(rows),
    )


def _fitting(rows: Sequence[RowFacts], chosen: Sequence[int], space: int) -> int:
    """The number of the chosen rows that the document has space for, if all of them fail; at least one, which blocks
    alone."""
    if space == LARGEST_BODY or not chosen:
        return max(1, len(chosen))
    if isinstance(rows, aside.MeasuredRows) and len(chosen) * aside.entry_size(rows.longest()) <= space:
        return len(chosen)
    sizes = accumulate(aside.entry_size(rows[index].cursor) for index in chosen)
    return max(1, sum(1 for size in sizes if size <= space))


def _chosen(sorted_: _Sorted, suspect: int) -> tuple[Sequence[int], int]:
    """Which rows are handed over, all from the first one on where it is a range, and how many are passed with them.
    `suspect`: the row that is searched for is one of so many; 0: none is."""
    hands = sorted_.hands
    if suspect == 0:
        return hands, sorted_.end
    before = [index for index in hands if index < suspect]
    if not before:
        return [], min(suspect, sorted_.end)
    part = before[: window.half(len(before))]
    return part, part[-1] + 1


class _Sorted:
    """The rows of a page by what becomes of them, up to the first that must be listed where there is no room.

    Attributes:
        hands, follows: by their index in the page. Rows that are listed or done already are neither.
        done, lanes: see `poller.model.lanes.done`.
        gone: ids of rows listed ahead of the checkpoint that the table has no more, with how many rows stand before.
        drops: ids of older versions, each with the index of the newer one.
        end: how many rows can be passed. room, space: how many more can be listed behind them, and how many bytes of
            them.
    """

    def __init__(
        self, state: State, rows: Sequence[RowFacts], reach: Reach, limits: Limits, *, space: int = LARGEST_BODY
    ) -> None:
        listed = aside.listed(state)
        self.gone: dict[str, int] = {}
        self.hands: Sequence[int] = range(len(rows))
        self.follows: list[int] = []
        self.drops: list[tuple[int, str]] = []
        self.end = len(rows)
        self.room = aside.room(state, limits)
        self.space = space
        self.done, self.lanes = lanes.done(state, rows, reach)
        if not listed:
            if self.done:
                self.hands = [index for index in range(len(rows)) if index not in self.done]
            return
        hands = self.hands = []
        self.gone = _gone(listed.values(), rows, reach)
        parked = {row.id: row.key for row in listed.values() if row.at is not None}
        for index, row in enumerate(rows):
            if row.id in listed:
                parked[row.id] = row.key
                continue
            if index in self.done:
                continue
            older = [other.id for other in listed.values() if other.pk == row.pk]
            held_by = {id_ for id_, key in parked.items() if key == row.key}.difference(older)
            takes = aside.entry_size(row.cursor) if held_by and space < LARGEST_BODY else 0
            if held_by and (self.room + len(older) <= 0 or takes > self.space):
                self.end = index
                return
            self.room += len(older)
            self.drops.extend((index, id_) for id_ in older)
            for id_ in older:
                parked.pop(id_, None)
                self.gone.pop(id_, None)
                del listed[id_]
            if held_by:
                parked[row.id] = row.key
                self.follows.append(index)
                self.room -= 1
                self.space -= takes
            else:
                hands.append(index)


def _gone(listed: Iterable[WaitingRow], rows: Sequence[RowFacts], reach: Reach) -> dict[str, int]:
    """Rows listed ahead of the checkpoint that the page has no more, each with how many rows of it stand before. A
    source that cannot say so may put it too early: it is behind the rows of its key that were listed before it, at
    least, as these are listed in order."""
    here = {row.id: place for place, row in enumerate(rows, 1)}
    gone: dict[str, int] = {}
    last: dict[str, int] = {}
    for row in listed:
        if row.at is None:
            place = here.get(row.id)
            if place is None:
                at = reach.get(row.cursor.place, len(rows) + 1)  # else it stands on the page, behind these rows
                place = gone[row.id] = max(at, last.get(row.key, 0))
            last[row.key] = max(place, last.get(row.key, 0))
    return gone


def begun(state: State, chosen: Plan) -> State:
    """The PUT before the call: older versions are dropped, and the window names the piece. Failures are counted again
    for another suspect."""
    state = aside.without(aside.after_reset(state), chosen.drops)
    former = window.standing(state)
    if chosen.window is None:
        return state if state.delivery.window is None else window.stored(state, None)
    if former is None or former.suspect != chosen.window.suspect:
        state = backoff.at_once(state)
    return window.stored(state, chosen.window)


def entered(state: State, chosen: Plan, tries: WaitingRow | None) -> State:
    """The same in the acquire's PUT, if a row aside may be tried before the batch: then that row is named. A window
    is opened here in any case."""
    if tries is None:
        return begun(state, chosen)
    kept = None if chosen.window is None else window.not_begun_of(chosen.window)
    return aside.trying(begun(state, replace(chosen, drops=(), window=kept)), tries.id)


def released(state: State, *, now: datetime) -> State:
    """The lease is given back with nothing in hand: what the last PUT named was not tried (protocol 8)."""
    return transitions.release(aside.not_tried(window.not_begun(state)), give_back=True, now=now)
