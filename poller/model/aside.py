"""Rows that wait, listed in the state document: `aside` those that are retried automatically, `quarantine` those
that wait for a person (failures 4 to 7 and 10).

Only what is listed counts; a record that nothing lists is what a stale owner left. A row is listed by the PUT that
passes it, or before that by a person or a `Reject` (then `at` is None, and it holds nothing up until it is passed).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

from poller.model import window
from poller.model.backoff import Backoff, at_once, fails, is_near
from poller.model.cursor import Cursor
from poller.model.document import State, WaitingRow, size
from poller.model.limits import LARGEST_BODY
from poller.model.stamps import later

SPARE = 16 * 1024
"""Bytes of a document that other fields may grow by while rows are listed."""
SPARE_OF_LANES = 64 * 1024
"""The same where several lanes say what they have done: where less is left, that is not kept."""
LEFT_ID = 25
"""Bytes of the id of a row that is not done, where lanes have done rows behind it."""
ENTRY = 768
"""Bytes of a row in the list, but for its cursor."""
COLUMN = 18
"""Bytes of a column of its key in the list, but for name and value."""
EARLIEST = datetime.min.replace(tzinfo=UTC)
"""The moment since which a row is due if that is not known."""


@dataclass(frozen=True)
class RowFacts:
    """What the rules need to know of a row that was read. A subclass may hash when it is asked: while no row fails,
    no caller asks.

    Attributes:
        id: hash of key and cursor: this version of the row. pk, key: hashes of the primary and of the ordering key.
        cursor: where it stands.
    """

    id: str
    pk: str
    key: str
    cursor: Cursor


@runtime_checkable
class MeasuredRows(Protocol):
    """Rows that can say how long their cursors are without making them."""

    def longest(self) -> Cursor:
        """A cursor that takes up at least as many bytes as that of any row; there is one."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of tries of a row, and of rows that wait.

    Attributes:
        max_attempts: whole-batch attempts before a batch is halved; strikes that make a row poison.
        max_aside: with that many failed rows aside, the next one blocks.
        max_quarantined: with that many rows listed, none is listed but those named in a report.
        backoff: between two tries, of the batch and of each row.
    """

    max_attempts: int = 5
    max_aside: int = 10
    max_quarantined: int = 100
    backoff: Backoff = field(default_factory=Backoff)


# --- what is listed --------------------------------------------------------------------------------------------------


def listed(state: State) -> dict[str, WaitingRow]:
    """All that wait, by id, but for what was listed before the last reset: those wait for a person and hold nothing
    up (failures 10)."""
    return {row.id: row for row in (*state.quarantine, *state.aside) if _is_current(state, row)}


def failing(state: State) -> int:
    """The rows that failed and are aside; those that only follow one are not counted (failures 6)."""
    return sum(1 for row in state.aside if _is_current(state, row) and not row.behind)


def room(state: State, limits: Limits) -> int:
    """The rows that may still be listed, below 0 if reports named more; those of earlier generations take up room as
    well."""
    return limits.max_quarantined - len(state.aside) - len(state.quarantine)


def space(state: State, rows: Sequence[RowFacts]) -> int:
    """The bytes of further rows for which the document has space, beside the places of a batch of these rows: the
    checkpoint and the four of a window. Counted only where there are many rows, or long cursors."""
    cursors = [row.cursor for row in (*state.aside, *state.quarantine)]
    count = len(cursors) + len(rows)
    cursors += _longest(rows)
    if (count + 5) * max(map(entry_size, cursors), default=0) < LARGEST_BODY // 4:
        return LARGEST_BODY
    return LARGEST_BODY - SPARE - _size_with_places(state, cursors, 5)


def space_of_lanes(state: State, rows: Sequence[RowFacts], lanes: int) -> int:
    """The same for several lanes, beside what they may have done above the checkpoint: a cursor for each of them, and
    the ids of these rows. Counted in any case: rows of several pages share it."""
    known = state.delivery.lanes
    if known is not None:
        lanes_done = {"lanes": known.model_copy(update={"done": ()})}
        state = state.model_copy(update={"delivery": state.delivery.model_copy(update=lanes_done)})
    cursors = [*(row.cursor for row in (*state.aside, *state.quarantine)), *_longest(rows)]
    return LARGEST_BODY - SPARE_OF_LANES - _size_with_places(state, cursors, 5 + lanes) - LEFT_ID * len(rows)


def _size_with_places(state: State, cursors: Sequence[Cursor], places: int) -> int:
    """Bytes of the document, with so many places for the longest of these cursors instead of checkpoint and window."""
    empty = {"checkpoint": state.checkpoint.model_copy(update={"cursor": None})}
    longest = max((cursor.size() + COLUMN * len(cursor.tiebreaker or ()) for cursor in cursors), default=0)
    return size(window.stored(state.model_copy(update=empty), None)) + places * longest


def _longest(rows: Sequence[RowFacts]) -> list[Cursor]:
    """Cursors; at least one takes up as many bytes as that of any of these rows."""
    return [rows.longest()] if rows and isinstance(rows, MeasuredRows) else [row.cursor for row in rows]


def largest_entry(rows: Sequence[RowFacts]) -> int:
    """Bytes that each of these rows takes up in the list, at most."""
    return max(map(entry_size, _longest(rows)), default=0)


def entry_size(cursor: Cursor) -> int:
    """Bytes that a row with this cursor takes up in the list, at most."""
    return ENTRY + cursor.size() + COLUMN * len(cursor.tiebreaker or ())


def heads(state: State) -> dict[str, WaitingRow]:
    """The oldest waiting row of each ordering key, of those that were passed (failures 7)."""
    oldest: dict[str, WaitingRow] = {}
    for row in listed(state).values():
        head = oldest.get(row.key)
        if row.at is not None and (head is None or head.at is None or row.at < head.at):
            oldest[row.key] = row
    return oldest


def due(
    state: State, now: datetime, *, limits: Limits, without: Collection[str] = (), batch_first: bool = False
) -> WaitingRow | None:
    """The row to try now: of the keys whose oldest row is aside and due, the one that has been due for longest
    (failures 5): older rows whose tries kill the process, again and again, must not hold up all others. A key whose
    oldest row waits for a person is not tried. `without`: the ids of rows that this tenure has tried since its last
    batch. `batch_first`: an attempt was killed, and there are rows to hand over before the next."""
    if batch_first:
        return None
    rows = [row for row in all_due(state, now, limits=limits) if row.id not in without]
    return min(rows, key=lambda row: (_due_since(row, now, limits), row.at or 0), default=None)


def all_due(state: State, now: datetime, *, limits: Limits) -> list[WaitingRow]:
    """The rows that may be tried now, one of a key at most."""
    first = heads(state)
    return [row for row in state.aside if first.get(row.key) is row and _is_due(row, now, limits)]


def _is_due(row: WaitingRow, now: datetime, limits: Limits) -> bool:
    return _due_since(row, now, limits) <= now


def _due_since(row: WaitingRow, now: datetime, limits: Limits) -> datetime:
    """The moment since which it may be tried, or when it may be; a time farther off than any delay counts for
    nothing."""
    if row.retry_at is None or not is_near(row.retry_at, now, limits.backoff.longest):
        return row.since if row.since is not None and row.since < now else EARLIEST
    return row.retry_at


def _is_current(state: State, row: WaitingRow) -> bool:
    return row.generation == state.checkpoint.generation


def waiting(state: State) -> int:
    """The number of rows that wait, whatever for: of any generation, those that follow included."""
    return len(state.aside) + len(state.quarantine)


# --- listing ---------------------------------------------------------------------------------------------------------


def set_aside(
    state: State,
    row: RowFacts,
    *,
    at: int | None,
    now: datetime,
    failures: int = 0,
    delay: float = 0.0,
) -> State:
    """The row is retried automatically, `delay` seconds from now at the earliest (failures 4). Its record stands."""
    entry = _entry(state, row, at=at, now=now, failures=failures)
    entry = entry.model_copy(update={"retry_at": later(now, delay) if delay else None})
    return _moved(state, aside=entry)


def add(state: State, row: RowFacts, *, now: datetime) -> State:
    """A person sets aside a row that the checkpoint has not passed: it is tried once it was passed. An older version of
    it gives up its place. Its record stands."""
    older = [other.id for other in listed(state).values() if other.pk == row.pk]
    return set_aside(without(state, older), row, at=None, now=now)


def follow(state: State, row: RowFacts, *, at: int, now: datetime) -> State:
    """The row waits behind an earlier one of its key (failures 7). Its record stands."""
    entry = _entry(state, row, at=at, now=now).model_copy(update={"behind": True})
    return _moved(state, aside=entry)


def reject(state: State, row: RowFacts, *, at: int | None, now: datetime) -> State:
    """The handler rejected the row: it waits for a person (failures 5). Its record stands."""
    entry = _entry(state, row, at=at, now=now, failures=1)
    return _moved(state, quarantine=entry)


def passed(state: State, at: Mapping[str, int]) -> State:
    """The checkpoint passes rows that are listed already, at these positions by their ids: from now on they hold up
    later rows of their keys."""

    def placed(row: WaitingRow) -> WaitingRow:
        known = row.at is not None or row.id not in at or not _is_current(state, row)
        return row if known else row.model_copy(update={"at": at[row.id]})

    return _with(state, aside=tuple(map(placed, state.aside)), quarantine=tuple(map(placed, state.quarantine)))


def without(state: State, ids: Collection[str]) -> State:
    """The rows of these ids wait no longer: delivered, superseded by a newer version, replayed or discarded."""
    if not ids:
        return state
    return _with(
        state,
        aside=tuple(row for row in state.aside if row.id not in ids),
        quarantine=tuple(row for row in state.quarantine if row.id not in ids),
    )


def delivered(state: State, rows: int) -> State:
    """So many rows were delivered: nothing of the pending batch counts as failed any more (failures 1), and rows aside
    may get a strike for their next failure (failures 5). Counted while any is aside."""
    if not rows:
        return state
    return at_once(state.model_copy(update={"delivered": state.delivered + rows}) if state.aside else state)


def after_reset(state: State) -> State:
    """What was aside before a reset waits for a person (failures 10), whichever version made that reset."""
    stale = tuple(row for row in state.aside if not _is_current(state, row))
    if not stale:
        return state
    aside = tuple(row for row in state.aside if _is_current(state, row))
    return _with(state, aside=aside, quarantine=(*state.quarantine, *stale))


def relisted(state: State, rows: Sequence[WaitingRow], columns: Sequence[str]) -> State:
    """Rows of a document that is gone wait for a person, as rows from before a reset do (failures 10)."""
    if not rows:
        return state
    before = max(0, state.checkpoint.generation - 1)
    again = tuple(row.model_copy(update={"generation": min(row.generation, before)}) for row in rows)
    changed = _with(state, quarantine=(*state.quarantine, *again))
    return changed if waiting(state) else keyed(changed, columns)


def keyed(state: State, columns: Sequence[str]) -> State:
    """The columns by whose values the listed rows were keyed, kept while any row waits (failures 8); empty: by the key
    columns."""
    return state.model_copy(update={"ordering_key": tuple(columns) if waiting(state) else ()})


def _entry(state: State, row: RowFacts, *, at: int | None, now: datetime, failures: int = 0) -> WaitingRow:
    return WaitingRow(
        id=row.id,
        pk=row.pk,
        key=row.key,
        cursor=row.cursor,
        at=at,
        generation=state.checkpoint.generation,
        since=now,
        failures=failures,
        delivered=state.delivered,
    )


# --- trying again ----------------------------------------------------------------------------------------------------


def trying(state: State, id_: str) -> State:
    """The PUT before the row is tried names it, so that the next owner counts a killed try (failures 5)."""
    return state.model_copy(update={"retrying": id_})


def not_tried(state: State) -> State:
    """The row that the last PUT named was not tried: nothing counts."""
    return state.model_copy(update={"retrying": None})


def remove(state: State, id_: str) -> State:
    """The row was delivered. What the document says failed last is forgotten, unless the pending batch fails too: on a
    quiet table no commit would do it."""
    state = not_tried(without(state, [id_]))
    if fails(state):
        return delivered(state, 1)
    return delivered(state.model_copy(update={"delivery": state.delivery.model_copy(update={"last_error": None})}), 1)


def failed_again(state: State, id_: str, *, limits: Limits, jitter: float, now: datetime) -> State:
    """The row failed, or its process was killed. A strike counts only if another row was delivered since its last
    failure: an outage gives none (failures 6). With `max_attempts` strikes it is poison and waits for a person."""
    row = next((row for row in state.aside if row.id == id_), None)
    if row is None:
        return not_tried(state)
    failures = row.failures + 1
    row = row.model_copy(
        update={
            "failures": failures,
            "strikes": row.strikes + (state.delivered > row.delivered),
            "delivered": state.delivered,
            "behind": False,
            "retry_at": later(now, limits.backoff.delay(failures, jitter)),
        }
    )
    if row.strikes >= limits.max_attempts:
        return not_tried(to_quarantine(state, row))
    return not_tried(_with(state, aside=tuple(row if other.id == id_ else other for other in state.aside)))


def rejected_again(state: State, id_: str) -> State:
    """The handler rejected the row: it waits for a person at once."""
    row = next((row for row in state.aside if row.id == id_), None)
    return not_tried(state if row is None else to_quarantine(state, row))


def put_off(state: State, id_: str, *, seconds: float, now: datetime) -> State:
    """What the handler calls is down (`RetryLater`): the row is tried later, and nothing counts."""
    at = later(now, seconds)
    aside = tuple(row.model_copy(update={"retry_at": at}) if row.id == id_ else row for row in state.aside)
    return not_tried(_with(state, aside=aside))


def to_quarantine(state: State, row: WaitingRow) -> State:
    """The row waits for a person. Those that follow it stay aside, and wait with it (failures 7)."""
    return _moved(state, quarantine=row.model_copy(update={"retry_at": None, "behind": False}))


def count_interrupted_try(state: State, *, limits: Limits, jitter: float, now: datetime) -> State:
    """As the next owner finds it: an attempt that was begun and never ended failed. That owner hands over a batch
    before it tries anything again (failures 5)."""
    if state.retrying is None:
        return state
    return failed_again(state, state.retrying, limits=limits, jitter=jitter, now=now)


def _moved(state: State, *, aside: WaitingRow | None = None, quarantine: WaitingRow | None = None) -> State:
    """The row is listed there and nowhere else, by one change: what is kept while any row waits is kept."""

    def changed(rows: tuple[WaitingRow, ...], new: WaitingRow | None) -> tuple[WaitingRow, ...]:
        others = tuple(row for row in rows if row.id not in {one.id for one in (aside, quarantine) if one})
        return others if new is None else (*others, new)

    return _with(state, aside=changed(state.aside, aside), quarantine=changed(state.quarantine, quarantine))


def _with(state: State, **fields: Any) -> State:
    changed = state.model_copy(update=fields)
    if not changed.aside:
        changed = changed.model_copy(update={"delivered": 0})
    return changed if waiting(changed) else keyed(changed, ())
