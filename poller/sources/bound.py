"""Below what rows are read (sources.md, "Rows that commit late"): `bound_of` makes the bound of a sample.

A sample is taken on the source's autocommit connection before every page, as the dialect says, in statements that each
have their own snapshot, never the page's. The page then reads `cursor < CAST(:bound AS type)`. A bound of the kind
`none` means that there is none. Any other without a value is not known yet, and no row is read.

Nothing here asks a database or a clock: what earlier samples showed is in `Memory`, which goes from sample to sample
and, as JSON, from process to process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from poller.databases.samplers import Sample, remembered
from poller.model.cursor import Cursor, CursorKind
from poller.model.limits import LONGEST_CURSOR
from poller.ports import Bound
from poller.sources.columns import CursorColumn, Family, floor_to, iso_text, lowest_from, parse_utc, unit_of
from poller.sources.options import OF_SERVER, ReadOptions

OPEN_TOO_LONG = "a transaction that is still open holds it"
_GUARDS = frozenset({"exact", "observed", "observed-strict"})
"""A bound of one of these kinds may follow one of another."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What the bound of a column rests on, as long as the connection leads to the same place.

    Attributes:
        kind, reason: what the bound says of itself; column: the cursor's.
        behind: how far below the oldest open transaction the bound is; of numbers, for how long one was there.
        keeps: the name in the document of the numbers or keys that earlier samples showed; empty for none.
    """

    kind: str
    reason: str
    column: CursorColumn
    behind: timedelta = timedelta(0)
    keeps: Literal["", "counts", "seen"] = ""


class Marked(NamedTuple):
    """A number or key that is there: with `counts` the first number that was not handed out yet, read before what is
    `open`, so that it is safe once all open transactions began after that look; with `seen` the greatest cursor, None
    in an empty table. `next`: the first number that was not handed out yet, if the server knows it."""

    value: Any
    open: Sample
    next: int | None = None


Sampled: TypeAlias = Sample | Marked | Bound
"""What a sample shows: what is open, a number or key too, or the bound itself, if the database says it."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What earlier samples showed.

    Attributes:
        clock: the highest clock of the server. last: the last bound in force.
        limits: True if `last` is only a limit, since the server went back.
        held: the checkpoint below which the server was found, and its next number then; until an operator moves it.
        marks: numbers or keys, with the time from which on they were there.
    """

    clock: str | None = None
    last: Bound | None = None
    limits: bool = False
    held: Mapping[str, str] | None = None
    marks: tuple[tuple[datetime, Any], ...] = ()


def bound_of(
    rule: Rule, options: ReadOptions, sample: Sampled, memory: Memory, after: Cursor | None = None
) -> tuple[Bound, Memory]:
    """The bound in force, and what is known now. It never moves back.

    A server below the checkpoint `after` (a crash that lost commits, a restore, a fail-over) hands out the same ids and
    numbers again, and rows written next lie where no page looks: none is read. For numbers that stays until an operator
    moves the checkpoint: once the server has passed it again, nothing would show that rows lie below. Delivered rows
    lie below their bound, and that below what was handed out, so a server that only grew is never below a checkpoint
    that a delivery wrote.
    """
    taken, marks = _taken(rule, options, sample, memory.marks)
    memory = replace(memory, marks=marks)
    if taken.kind == "none":
        return taken, memory
    kind = options.cursor_kind
    if after is not None and kind != "timestamp+pk":
        fact, held = _below(kind, taken, memory, after)
        memory = replace(memory, held=held)
        if fact is not None:
            nothing = _unknown(taken, _handed_out_again(**fact))
            return replace(nothing, held_by=None, cold=False, below_checkpoint=True), memory
    memory = replace(memory, limits=memory.limits or _fell(kind, taken, memory.last))
    bound, memory = _in_force(taken, memory)
    if not bound.clock_went_back and kind == "timestamp+pk" and (why := _ahead(options, taken, after)):
        bound = replace(bound, below_checkpoint=True, reason=why)
    return bound, memory


# ----------------------------------------------------------------------------------------------- what a sample says


def _taken(rule: Rule, options: ReadOptions, sample: Sampled, marks: tuple[Any, ...]) -> tuple[Bound, tuple[Any, ...]]:
    """The bound by one sample, and the marks from now on."""
    if isinstance(sample, Bound):
        return sample, marks
    if isinstance(sample, Marked):
        return _marked(rule, sample, marks)
    if sample.oldest is None:
        return _not_known(rule, sample), marks
    at = (sample.oldest - rule.behind).astimezone(UTC)
    bound = Bound(
        kind=rule.kind,
        value=render(at, rule.column, options.zone),
        at=at,
        age_seconds=max(0.0, (sample.clock - at).total_seconds()) + sample.ago,
        held_by=sample.held_by,
        clock=_text(sample.clock),
        reason=f"{sample.reason or OPEN_TOO_LONG}; {rule.reason}" if sample.held_by else rule.reason,
    )
    return bound, marks


def _marked(rule: Rule, sample: Marked, marks: tuple[Any, ...]) -> tuple[Bound, tuple[Any, ...]]:
    """The bound of a number or key: of the marks that were there long enough, and before all that is open, the last.
    Marks are worthless where the clock or the counter went back."""
    value, seen, counts = sample.value, sample.open, rule.keeps == "counts"
    if marks and (seen.began < marks[-1][0] or (counts and value < marks[-1][1])):
        marks = ()
    if value is not None:
        marks = (*marks, (seen.began, value))
    if counts:
        marks = _thinned(marks, 256)
    settled = () if seen.oldest is None else _since(marks, seen.oldest - rule.behind)
    if settled:
        marks = settled if counts else _thinned(settled, 64)
        age = max(0.0, (seen.clock - marks[0][0]).total_seconds()) + seen.ago
        bound = Bound(
            kind=rule.kind,
            value=str(marks[0][1]),
            age_seconds=age if seen.held_by else None,
            held_by=seen.held_by,
            reason=f"{OPEN_TOO_LONG}; {rule.reason}" if seen.held_by else rule.reason,
            inclusive=not counts,
        )
    elif seen.oldest is None:
        bound = _not_known(rule, seen)
    elif not counts or (rule.behind and marks[0][0] <= seen.oldest):
        reason = f"no value has been there for `settle` yet; {rule.reason}"
        bound = Bound(kind=rule.kind, reason=reason, cold=bool(marks) and not counts)
    else:
        who, reason = "transactions that were open at the first sample", "it is not known yet which values they took"
        bound = Bound(kind=rule.kind, held_by=who, reason=reason, cold=True)
    return replace(bound, clock=_text(seen.clock), next=None if sample.next is None else str(sample.next)), marks


def _since(marks: tuple[Any, ...], moment: datetime) -> tuple[Any, ...]:
    """The last mark that was there at a moment, and all after it; empty if there is none."""
    old = [number for number, (there, _) in enumerate(marks) if there <= moment]
    return marks[old[-1] :] if old else ()


def _thinned(marks: tuple[Any, ...], most: int) -> tuple[Any, ...]:
    return marks if len(marks) <= most else (marks[0], *marks[1:-1:2], marks[-1])


def _not_known(rule: Rule, seen: Sample) -> Bound:
    return Bound(rule.kind, held_by=seen.held_by, reason=seen.reason, clock=_text(seen.clock), cold=seen.cold)


def _text(clock: datetime) -> str:
    return iso_text(clock.astimezone(UTC), 6, zoned=True)


def render(moment: datetime, column: CursorColumn, zone: tzinfo | None) -> str:
    """An instant in a column's own form: rounded down to the column's precision and one unit less, because a column
    that holds fewer digits rounds to the nearest (sources.md). `zone`: what naive values mean; of an hour that its
    clocks show twice the beginning, until they show it for the second time."""
    offset = None if column.form is None else column.form.offset()
    if column.form is not None and offset is not None:
        return column.form.below((moment.astimezone(UTC) + offset).replace(tzinfo=None))
    zoned = column.family is Family.TIMESTAMPTZ and column.form is None
    local = moment.astimezone(UTC) if zoned else lowest_from(moment, zone or UTC)
    if column.form is not None:
        return column.form.below(local)
    if column.family is Family.DATE:
        return local.date().isoformat()  # a row of today may come until midnight
    unit = unit_of(column.digits)
    return iso_text(floor_to(local, unit) - unit, column.digits, zoned=zoned)


# ------------------------------------------------------------------------------- never back, and a clock that went back


def _in_force(taken: Bound, memory: Memory) -> tuple[Bound, Memory]:
    """The sampled bound, or a lower one with the reason why it did not advance.

    While the server's clock is lower than one seen before (a fail-over), its writers stamp rows below the last bound
    again. Then that is only a limit: the lower of it and the sampled one is in force, and no row is read while that is
    not known. This ends when the sampled bound has reached the last one; a clock that has caught up is not enough,
    since an earlier transaction may still be open.
    """
    if taken.clock is not None:
        back = _seconds_back(taken.clock, memory.clock)
        if memory.clock is not None and back > 0:
            limited = _limited(taken, memory.last, _behind(taken.clock, memory.clock))
            return replace(limited, clock_back=back), replace(memory, limits=True)
        memory = replace(memory, clock=taken.clock)
    if taken.value is None:
        why = taken.reason or "not known yet"
    elif memory.last is not None and _moves_back(memory.last, taken):
        why = taken.reason or "it would have moved back"
    else:
        return taken, replace(memory, last=taken, limits=False)
    return (_limited if memory.limits else _kept)(taken, memory.last, why), memory


def _kept(taken: Bound, last: Bound | None, reason: str) -> Bound:
    if last is None:
        return _unknown(taken, reason)
    age = taken.age_seconds
    if last.at is not None and taken.clock is not None:
        age = max(0.0, (datetime.fromisoformat(taken.clock) - last.at).total_seconds())
    return replace(last, age_seconds=age, clock=taken.clock, held_by=taken.held_by, reason=reason, cold=taken.cold)


def _limited(taken: Bound, last: Bound | None, reason: str) -> Bound:
    """The lower of the last bound and the sampled one; no value where either is not known."""
    if last is None or taken.value is None:
        return _unknown(taken, reason)
    return replace(taken, reason=reason) if _moves_back(last, taken) else _kept(taken, last, reason)


def _unknown(taken: Bound, reason: str) -> Bound:
    return replace(taken, value=None, at=None, age_seconds=None, reason=reason)


def _moves_back(last: Bound, new: Bound) -> bool:
    """By instant where both have one; numbers (xid8, sequences) as numbers; hex of one width (rowversion) as text.
    Only the database knows the order of other texts; those are values seen in the table (`inclusive`), which only
    grow."""
    if new.inclusive:
        return False
    if last.at is not None and new.at is not None:
        return new.at < last.at or (new.at == last.at and str(new.value) < str(last.value))
    if last.value is None or new.value is None:
        return False
    if last.value.isdigit() and new.value.isdigit():
        return int(new.value) < int(last.value)
    return new.value < last.value


def _seconds_back(clock: str, highest: str | None) -> float:
    """By how much a clock is behind the highest one that was seen."""
    if highest is None:
        return 0.0
    return (datetime.fromisoformat(highest) - datetime.fromisoformat(clock)).total_seconds()


def _behind(clock: str, highest: str) -> str:
    return (
        f"the database's clock went back: {clock} < {highest}; rows wait until it has passed that, and those stamped"
        " meanwhile may lie below the checkpoint, where `poller recheck` finds them (audit_window); if it was wrong"
        " before and is right now, `poller reset-to-cursor` to the last row before that ends it"
    )


# -------------------------------------------------------------------------------- a server that is below the checkpoint


def _below(
    kind: CursorKind, taken: Bound, memory: Memory, after: Cursor
) -> tuple[Mapping[str, str] | None, Mapping[str, str] | None]:
    """What shows that the server lies below the checkpoint, now and, if it is to be remembered, from now on."""
    if memory.held is not None and memory.held["checkpoint"] == after.value:
        return memory.held, memory.held  # else an operator moved the checkpoint
    at, free = _place(kind, after.value), _place(kind, taken.next)
    if at is None or free is None:
        return None, None
    delivered = after.tiebreaker is not None  # else "at or after": nothing was delivered yet
    fact = {"checkpoint": after.value, "next": str(taken.next)}
    if free < at or (free == at and delivered):
        return fact, fact if delivered or _fell(kind, taken, memory.last) else None
    # The server has passed the checkpoint again, but transactions from below it are still open.
    was, low = _place(kind, memory.last.value if memory.last else None), _place(kind, taken.value)
    if kind not in OF_SERVER or was is None or low is None or not (low <= at < was and delivered):
        return None, None
    fact = {**fact, "next": str(taken.value)}
    return fact, fact


def _fell(kind: CursorKind, taken: Bound, last: Bound | None) -> bool:
    """True if the server itself lies below the last bound, which is then too high."""
    was, now = _place(kind, last.value if last else None), _place(kind, taken.next)
    if was is not None and now is not None and now < was:
        return True
    low = _place(kind, taken.value)
    return kind in OF_SERVER and was is not None and low is not None and low < was


def _place(kind: CursorKind, text: str | None) -> Decimal | None:
    """The value as a number, for comparison; None if it is not a number."""
    if text is None:
        return None
    try:
        number = Decimal(int(text, 16)) if kind == "rowversion+pk" else Decimal(text)
    except (ValueError, InvalidOperation):
        return None
    return number if number.is_finite() else None


def _ahead(options: ReadOptions, taken: Bound, after: Cursor | None) -> str | None:
    """The message where the checkpoint lies ahead of the server's clock; else None. A start in the future is not a
    checkpoint: polling is to begin then."""
    if after is None or after.tiebreaker is None or taken.clock is None:
        return None
    at = parse_utc(after.value, options.zone)
    if at is None or datetime.fromisoformat(taken.clock) >= at:
        return None
    return (
        f"the checkpoint {after.value} lies ahead of the database's clock, {taken.clock}: the clock went back, or"
        " the checkpoint was set ahead; rows wait until the clock has passed it, and those stamped meanwhile lie"
        " below the checkpoint, where `poller recheck` finds them (audit_window); `poller reset-to-cursor` to the"
        " last row before that time ends the wait"
    )


def _handed_out_again(checkpoint: str, next: str) -> str:  # noqa: A002 - the name in the document
    return (
        f"the checkpoint {checkpoint} lies above what the server has handed out (its next value was {next} when this"
        " was noticed): the server went back (a crash that lost commits, a restore, a fail-over, TRUNCATE ... RESTART"
        " IDENTITY), or the checkpoint was set ahead; rows written since lie below the checkpoint, so none is read"
        " until an operator moves it: `poller reset-to-cursor` to the last row from before, or `poller"
        " reset-to-beginning`;"
        " `poller recheck` lists rows below it that were never delivered (audit_window), except those that have the key"
        " and number of a delivered one"
    )


# ------------------------------------------------------------------------------------------------ in the document


def as_json(rule: Rule, memory: Memory, samples: dict[str, Any] | None) -> dict[str, Any] | None:
    """What a commit stores; None for no bound. `samples`: what the sampler remembers."""
    if rule.kind == "none":
        return None
    if rule.keeps:
        newest = 8 if rule.keeps == "counts" else 4
        kept = dict.fromkeys(memory.marks[:1] + memory.marks[-newest:])
        marks: dict[str, Any] = {rule.keeps: [[there.isoformat(), value] for there, value in kept]}
        if rule.keeps == "counts":
            marks["samples"] = samples
        samples = marks if kept else None
    last = memory.last
    found = {
        "kind": rule.kind,
        "clock": memory.clock,
        "value": last.value if last and last.at is None else None,
        "at": last.at.isoformat() if last and last.at else None,
        "limits": memory.limits or None,
        "samples": samples,
        "below": memory.held,
    }
    return {name: value for name, value in found.items() if value is not None}


def recalled(
    rule: Rule, options: ReadOptions, memory: Memory, found: Mapping[str, Any]
) -> tuple[Memory, Mapping[str, Any] | None]:
    """The memory with what another process remembered; what is known better here stays. Also what the sampler is to go
    on from.

    Raises: ValueError, TypeError, KeyError, AttributeError, OverflowError, for data that no such process wrote.
    """
    clock, kind, last, marks = found.get("clock"), str(found.get("kind")), memory.last, memory.marks
    seen = remembered(clock) if clock else None
    newer = seen is not None and (memory.clock is None or remembered(memory.clock) < seen)
    if last is None and (kind == rule.kind or {kind, rule.kind} <= _GUARDS):
        last = _last_of(rule, options, found)
    below = found.get("below")
    held = {"checkpoint": str(below["checkpoint"]), "next": str(below["next"])} if below else None
    samples: Any = {**((found.get("samples") if kind == rule.kind else None) or {}), "clock": clock}
    if rule.keeps:  # `clock` goes along to others: a shared sample may be older than that
        read: Callable[[Any], Any] = int if rule.keeps == "counts" else partial(_value, options)
        marks = marks or tuple((remembered(there), read(value)) for there, value in samples.get(rule.keeps) or ())
        samples = samples.get("samples") if rule.keeps == "counts" else None
    limits = memory.limits or bool(found.get("limits"))
    return Memory(clock if newer else memory.clock, last, limits, memory.held or held, marks), samples or None


def _last_of(rule: Rule, options: ReadOptions, found: Mapping[str, Any]) -> Bound | None:
    if found.get("at"):
        at = remembered(found["at"])
        return Bound(rule.kind, value=render(at, rule.column, options.zone), at=at)
    value = found.get("value")
    return Bound(rule.kind, value=_value(options, value)) if value else None


def _value(options: ReadOptions, value: Any) -> str:
    """A bound's text that an earlier process remembered. Raises: ValueError where it is not one."""
    if not isinstance(value, str) or len(value) > LONGEST_CURSOR or "\0" in value:
        raise ValueError("not the text of a bound")
    if options.cursor_kind in ("integer+pk", "xid8+pk"):
        int(value)
    return value
