"""The types of the columns that a cursor is made of, as a state document keeps them.

Whoever asks whether rows wait makes the page's statement of them, without asking the database for anything else. A
document may have been edited: a type stands in SQL, so only what can be the name of one is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from poller.sources.columns import Column, Family
from poller.sources.columns.moments import TextForm
from poller.sources.reading.inspection import Inspection

LONGEST_TYPE = 80
_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_TYPE = re.compile(rf"{_WORD}(?:[ .]{_WORD})*(?:\((?:\d{{1,5}}|max)(?:, ?\d{{1,3}})?\)(?: {_WORD})*)?", re.ASCII)
_ZONE = re.compile(r"(?:Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII)
_MOST_DIGITS = 9


def types_as_json(known: Inspection) -> dict[str, Any]:
    """By the column's name, of the cursor and of the key; what is the usual case is left out."""
    return {column.name: _as_json(column) for column in (known.cursor, *known.keys)}


def read_types(stored: object, cursor: str, keys: tuple[str, ...]) -> tuple[Column, tuple[Column, ...]] | None:
    """The columns of the cursor and the key, from a document's `columns`; None where it does not say all of them, or
    says what this version does not write."""
    if not isinstance(stored, Mapping):
        return None
    try:
        read = {name: _column(name, stored[name]) for name in (cursor, *keys)}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return read[cursor], tuple(read[name] for name in keys)


def _as_json(column: Column) -> dict[str, Any]:
    form = column.form
    said: dict[str, Any] = {"family": column.family.value}
    if column.sql_type:
        said["type"] = column.sql_type
    if column.digits != Column.__dataclass_fields__["digits"].default:
        said["digits"] = column.digits
    if form is not None:
        said["form"] = {
            "separator": form.separator, "seconds": form.seconds, "digits": form.digits, "zone": form.zone
        }  # fmt: skip
    return said


def _column(name: str, said: Any) -> Column:
    """Raises: AttributeError, KeyError, TypeError, ValueError: not what this version writes."""
    kind, digits, form = said.get("type", ""), said.get("digits", 6), said.get("form")
    if not isinstance(kind, str) or (kind and (len(kind) > LONGEST_TYPE or _TYPE.fullmatch(kind) is None)):
        raise ValueError("not the name of a type")
    return Column(
        name=name,
        family=Family(said["family"]),
        sql_type=kind,
        digits=_number(digits),
        form=None if form is None else _form(form),
    )


def _form(said: Any) -> TextForm:
    separator, seconds, zone = said["separator"], said["seconds"], said["zone"]
    if separator not in ("", " ", "T") or not isinstance(seconds, bool):
        raise ValueError("not the form of a timestamp")
    if not isinstance(zone, str) or _ZONE.fullmatch(zone) is None:
        raise ValueError("not a zone")
    return TextForm(separator=separator, seconds=seconds, digits=_number(said["digits"]), zone=zone)


def _number(said: Any) -> int:
    if isinstance(said, bool) or not isinstance(said, int) or not 0 <= said <= _MOST_DIGITS:
        raise ValueError("not a number of digits")
    return said
