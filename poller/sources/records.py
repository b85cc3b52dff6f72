"""A page's records, looked at before anything of them is delivered: a cursor or a key whose text does not lead back to
its row would deliver the same rows for ever, or skip some."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from poller.errors import SourceError
from poller.sources.columns import MOMENTS, Column, Family
from poller.sources.dialects.base import Dialect
from poller.sources.inspection import Inspection, odd_value
from poller.sources.keys import ReadPlan
from poller.sources.options import Options

_TYPES: dict[Family, tuple[type, ...]] = {
    Family.INTEGER: (int, Decimal),
    Family.TEXT: (str,),
    Family.BYTES: (bytes, bytearray, memoryview),
}
"""What a driver gives for a family; for the others any exact value."""


def refuse_bad_records(
    known: Inspection,
    options: Options,
    dialect: Dialect,
    records: Sequence[Sequence[Any]],
    plan: ReadPlan,
    names: Sequence[str],
) -> None:
    """Return where every record's cursor and key can be gone on from.

    Args:
        plan: where a cursor's parts stand in a record; names: the user's columns, the first of a record.

    Raises: SourceError naming the table and the column.
    """
    if not records:
        return
    if any(key.nullable is not False for key in known.keys) and any(map(plan.null_key, records)):
        raise bad_key(options, "is NULL in some rows")
    if not known.provable:
        _refuse_neighbours_alike(options, records, plan)
    _refuse_other_types(known, options, dialect, records, plan, names)
    _refuse_odd_moments(known, options, dialect, records, plan)


def bad_key(options: Options, why: str) -> SourceError:
    """The error for a key that is none."""
    names = ", ".join(options.pk_columns)
    return SourceError(
        f"{options.what}: the key {names} {why}, and rows could be skipped.",
        table=options.what,
        column=options.pk_columns[0],
        next_step="Name columns in `pk_columns` that are never NULL and unique together.",
    )


def _refuse_neighbours_alike(options: Options, records: Sequence[Sequence[Any]], plan: ReadPlan) -> None:
    before: tuple[Any, ...] | None = None
    for identity in map(plan.identity, records):
        if identity == before:
            raise bad_key(options, "is the same in several rows")
        before = identity


def _refuse_other_types(
    known: Inspection,
    options: Options,
    dialect: Dialect,
    records: Sequence[Sequence[Any]],
    plan: ReadPlan,
    names: Sequence[str],
) -> None:
    """Where types belong to values, each value; elsewhere the first shows whether the driver gives bytes for text."""
    places = {known.cursor: names.index(known.cursor.name)}
    places |= {key: place for key, (_, place) in zip(known.keys, plan.places, strict=True)}
    for column, place in places.items():
        wanted = _TYPES.get(column.family)
        if wanted is None:
            continue
        looked_at = records if dialect.types_belong_to_values else records[:1]
        for kind in {type(record[place]) for record in looked_at}:
            if not issubclass(kind, wanted):
                if column.form is not None and column.name == options.cursor_column:
                    raise odd_value(options, next(r[place] for r in records if type(r[place]) is kind))
                raise _other_type(options, column, kind)


def _other_type(options: Options, column: Column, kind: type) -> SourceError:
    return SourceError(
        f"{options.what}: column {column.name} holds {column.family.value} values, and one of type {kind.__name__}:"
        " they do not sort together, and the same rows would be delivered for ever.",
        table=options.what,
        column=column.name,
        next_step="Store all of them as one type, or leave the odd ones out with a `filter`; where all came as bytes,"
        " remove the option in `url` that asks the driver for them.",
    )


def _refuse_odd_moments(
    known: Inspection, options: Options, dialect: Dialect, records: Sequence[Sequence[Any]], plan: ReadPlan
) -> None:
    form = known.cursor.form
    if form is not None and options.cursor_kind == "timestamp+pk":
        fits = form.pattern().fullmatch
        odd = next((r[plan.text_at] for r in records if not fits(str(r[plan.text_at]))), None)
        if odd is not None:
            raise odd_value(options, odd)
    if not dialect.holds_impossible_dates:
        return
    places = {known.cursor: plan.text_at}
    places |= {key: place for key, (_, place) in zip(known.keys, plan.places, strict=True)}
    for column, place in places.items():
        if column.family in MOMENTS:
            impossible = _impossible(record[place] for record in records)
            if impossible is not None:
                raise odd_value(options, impossible, column.name)


def _impossible(texts: Iterable[Any]) -> str | None:
    """The first text that is no date of the calendar: a CAST of it may be NULL, which nothing comes after."""
    read = datetime.fromisoformat
    for text in texts:
        if type(text) is not str:
            return "(no text)" if text is None else str(text)
        try:
            read(text)
        except ValueError:
            return text
    return None
