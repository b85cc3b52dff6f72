"""What decides how a table is read, as one value, and what follows when it changes.

A cursor's text is compared with a column in the column's own order, below a bound that the server guarantees. Each of
these rests on facts that others may change between two pages or across a restart: a type, a collation, which table has
the name, which server answers, what the poller's user may see. So a document stores the facts that its checkpoint rests
on, and `judge` compares them with the present ones before a page is read. Nothing here asks a database.
"""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import Any

from poller.errors import SourceError, SourceUnavailable
from poller.model.cursor import Cursor
from poller.sources.columns import MOMENTS, NUMBERS, CursorColumn, Family, TextForm

LONGEST_TYPE = 80
LONGEST_TEXT = 200
_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_TYPE = re.compile(rf"{_WORD}(?:[ .]{_WORD})*(?:\((?:\d{{1,5}}|max)(?:, ?-?\d{{1,4}})?\)(?: {_WORD})*)?", re.ASCII)
_ZONE = re.compile(r"(?:Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.(?P<fraction>\d+))?(?P<zone>Z?)", re.ASCII)
_PLACES = re.compile(r"\w+\((?P<digits>\d+), ?(?P<scale>-?\d+)\)", re.ASCII)
_MOST_DIGITS = 9
_RANKS = {"none": 0, "heuristic": 1, "observed": 2, "observed-strict": 3, "exact": 4}
_SIZES = ("smallint", "integer", "bigint")
_TEXTS = ("character varying", "text")
"""Types that hold all values of those before them, in the same order."""
ACCEPT = 'set bound = "delay", which accepts that rows of long transactions may be missed'


class TableChanged(Exception):
    """A page shows, or what it rests on shows, that the table is not as it was when its facts were taken."""


GONE = "the key of this table has changed"
"""What the error of a `Watch.guard` quotes."""


@dataclass(frozen=True)
class Watch:
    """What a page rests on and no result shows, as it was when the table was looked at.

    Attributes:
        guard: a condition of each page that fails with an error that quotes `GONE` if it is not so any more.
        sql, params: what asks again, after each page that has rows, or with a `guard` now and then; empty where a
            result does show it (`Dialect.seen`). found: its row.
        object: which object has the table's name; None if that is not known here.
        collations: by which a column's text is sorted, with its version, by the column's name.
        digits: how many digits of a second a column shows, if this is not what its type surely holds.
        types: of a column of numbers its type with the places that it holds, if `CursorColumn.sql_type` does not
            say them.
    """

    sql: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    found: tuple[Any, ...] = ()
    object: str | None = None
    collations: Mapping[str, str] = field(default_factory=dict)
    digits: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    guard: str = ""


@dataclass(frozen=True)
class Inspection:
    """What is known once the source has a row, or its types are known without one.

    Attributes:
        names: all columns in order; cursor, keys: the columns of the cursor; ordering: of the ordering key, if it
            is not the key.
        provable: the database itself guarantees the key; where it does not (views, queries, tables that others inherit
            from), rows are checked.
        seen: what a result showed of the cursor's and the key's types just before all of this was asked: a page that
            shows another thing was read under other types. watch: what no result shows of them.
    """

    names: tuple[str, ...]
    cursor: CursorColumn
    keys: tuple[CursorColumn, ...]
    provable: bool
    ordering: tuple[CursorColumn, ...] = ()
    seen: Hashable = None
    watch: Watch = field(default_factory=Watch)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Which kind of bound the rows are read below (`Bound.kind`).

    Attributes:
        why: why this kind, in words. asked: True if the configuration names it, so that a person has accepted it.
    """

    kind: str
    why: str = ""
    asked: bool = False


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a page rests on.

    Attributes:
        cursor, keys: the columns of the cursor and the key.
        server: which server it is, and on which timeline of it; None if that is not known.
        object: which object has the table's name; None if that is not known.
        guarantee: None until the bound is known.
    """

    cursor: CursorColumn
    keys: tuple[CursorColumn, ...]
    server: str | None = None
    object: str | None = None
    guarantee: Guarantee | None = None

    def as_json(self) -> dict[str, Any]:
        """As a state document stores them; what is the usual case is left out."""
        said: dict[str, Any] = {} if self.server is None else {"server": self.server}
        if self.object is not None:
            said["object"] = self.object
        said["columns"] = {column.name: _as_json(column) for column in (self.cursor, *self.keys)}
        if self.guarantee is not None:
            said["guarantee"] = self.guarantee.kind
        return said


def read_columns(
    stored: object, cursor: str, keys: tuple[str, ...]
) -> tuple[CursorColumn, tuple[CursorColumn, ...]] | None:
    """The columns of the cursor and the key, from a document's `facts`; None if it does not say all of them, or says
    what this version does not write. A document may have been edited, and types are in SQL."""
    columns = stored.get("columns") if isinstance(stored, Mapping) else None
    if not isinstance(columns, Mapping):
        return None
    try:
        read = {name: _column(name, columns[name]) for name in (cursor, *keys)}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return read[cursor], tuple(read[name] for name in keys)


def read_facts(stored: object, cursor: str, keys: tuple[str, ...]) -> TableFacts | None:
    """The facts, from a document; None as `read_columns`."""
    columns = read_columns(stored, cursor, keys)
    if columns is None or not isinstance(stored, Mapping):
        return None
    texts = [stored.get(name) for name in ("server", "object", "guarantee")]
    if any(one is not None and not (isinstance(one, str) and len(one) <= LONGEST_TEXT) for one in texts):
        return None
    server, made, kind = texts
    return TableFacts(*columns, server=server, object=made, guarantee=None if kind is None else Guarantee(kind))


# ------------------------------------------------------------------------------------------------------- what follows


class Does(enum.Enum):
    """What follows from a change of the facts."""

    GO_ON = "go on"
    REPEAT = "begin the tie again"
    LOOK = "look for the row at the checkpoint, and judge again"
    WAIT = "wait until it is as it was"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class FactsVerdict:
    """What follows from a change of the facts.

    Attributes:
        why: what changed, in words. column: the column that changed. step: what a person can do.
        cursor: with REPEAT, where to go on: at or after the cursor's own value, rounded down to what the column holds.
        replaced: with REPEAT, that another table has the name.
    """

    does: Does
    why: str = ""
    column: str = ""
    step: str = ""
    cursor: Cursor | None = None
    replaced: bool = False

    def error(self, table: str) -> SourceError:
        """The error of WAIT and REFUSE."""
        raised = SourceUnavailable if self.does is Does.WAIT else SourceError
        return raised(f"{table}: {self.why}.", table=table, column=self.column, next_step=self.step)


_GO_ON = FactsVerdict(Does.GO_ON)


def judge(old: TableFacts, new: TableFacts, cursor: Cursor | None, *, same_row: bool | None = None) -> FactsVerdict:
    """What follows for a cursor that rests on `old` where the table is `new` now.

    `same_row`: under LOOK, whether what has the name holds the row at the cursor, with the same key and a cursor that
    is not below it, or no row at or below it; None: it was not looked for.
    """
    if old == new:
        return _GO_ON
    if cursor is not None:
        refused = _refused(old.cursor, new.cursor, cursor)
        if refused is not None:
            return refused
    replaced = cursor is not None and _is_another(old.object, new.object)
    if replaced and same_row is not True:
        if same_row is None:
            return FactsVerdict(Does.LOOK)
        return _refuse(f"{_replaced(old, new)}, and it does not hold the row at the checkpoint {cursor}", "")
    waits = _waits(old, new, cursor)
    if waits is not None:
        return waits
    if cursor is None:
        return _GO_ON
    found = [_key_changed(one, other) for one, other in zip(old.keys, new.keys, strict=True)]
    changed = next(((why, key.name) for why, key in zip(found, new.keys, strict=True) if why), ("", ""))
    if not changed[0] and _holds_less(old.cursor, new.cursor):
        changed = f"column {new.cursor.name} holds fewer digits now", new.cursor.name
    if not changed[0] and not replaced:
        return _GO_ON
    why, column = changed if changed[0] else (f"{_replaced(old, new)}, and it holds the row at the checkpoint", "")
    return FactsVerdict(Does.REPEAT, why, column, cursor=tie_of(cursor, new.cursor), replaced=not changed[0])


def tie_of(cursor: Cursor, column: CursorColumn) -> Cursor:
    """At or after a cursor's own value, rounded down to what the column holds: before all rows that may have the value
    now, so that some come again, and none is passed."""
    value = cursor.value
    if column.family in MOMENTS and column.form is None:
        found = _MOMENT.fullmatch(value)
        fraction = "" if found is None else found["fraction"] or ""
        if found is not None and fraction:
            kept = fraction[: column.digits].ljust(len(fraction), "0")
            value = f"{value[: found.start('fraction')]}{kept}{found['zone']}"
    elif column.family is Family.NUMERIC and (places := _PLACES.fullmatch(column.sql_type)):
        scale = int(places["scale"])
        exactly = Context(prec=len(value) + abs(scale) + 2, rounding=ROUND_FLOOR)
        with contextlib.suppress(InvalidOperation):
            value = format(Decimal(value).quantize(Decimal((0, (1,), -scale)), context=exactly), "f")
    return cursor.model_copy(update={"value": value, "tiebreaker": None})


def refuse_changed(
    cursor: Cursor | None, column: CursorColumn, keys: tuple[CursorColumn, ...], *, what: str, is_table: bool
) -> None:
    """Return if a cursor's text can have come from these columns, if no facts say what it rests on; of a query the
    digits are not known. Raises: SourceError naming the column that was changed."""
    if cursor is None:
        return
    why = _moment_of_another_column(cursor, column, is_table=is_table)
    if why:
        raise _refuse(f"{_not_of(cursor, column.name)}: {why}. Rows could be skipped", column.name).error(what)
    for key in keys:
        value = (cursor.tiebreaker or {}).get(key.name)
        if (key.family is Family.INTEGER and isinstance(value, str)) or (
            key.family is Family.TEXT and isinstance(value, int)
        ):
            why = f"the column holds {key.family.value} values now"
            raise _refuse(f"{_not_of(cursor, key.name)}: {why}. Rows could be skipped", key.name).error(what)


def _not_of(cursor: Cursor, column: str) -> str:
    return f"the checkpoint {cursor} cannot have come from column {column} as it is now"


def _refuse(why: str, column: str) -> FactsVerdict:
    back = "Change the column back" if column else "Put the former table back"
    step = f"{back}; if the rows up to the checkpoint were delivered: poller rebind; else poller reset-to-cursor."
    return FactsVerdict(Does.REFUSE, why, column, step)


def _refused(old: CursorColumn, new: CursorColumn, cursor: Cursor) -> FactsVerdict | None:
    """Where the cursor's text means another place in the cursor's column."""
    moments = {
        Family.DATE: "the column holds dates now",
        Family.TIMESTAMPTZ: "the column has a time zone now, and had none",
        Family.TIMESTAMP: "the column has no time zone now, and had one",
    }
    why = ""
    if old.family in NUMBERS and new.family in NUMBERS:
        if old.family is Family.NUMERIC and new.family is Family.INTEGER:
            why = "the column holds whole numbers now"
    elif old.family is not new.family:
        why = moments.get(new.family, f"the column holds {new.family.value} values now")
        if old.family is Family.DATE:
            why = "the column holds times now, and held dates"
    elif old.family not in MOMENTS and old.sql_type != new.sql_type:
        why = f"the column is of type {new.sql_type or 'another'} now, and was {old.sql_type or 'another'}"
    elif old.form != new.form and cursor.tiebreaker is not None:  # a `start_from` may have another form
        why = "the column's text is written in another form now"
    elif _sorts_otherwise(old, new):
        why = f"the column sorts by {new.collation} now, and sorted by {old.collation}"
    return _refuse(f"{_not_of(cursor, new.name)}: {why}. Rows could be skipped", new.name) if why else None


def _is_another(old: str | None, new: str | None) -> bool:
    """True if two names of an object are not of the same one. One may say more than the other; what both say first
    decides."""
    if old is None or new is None:
        return False
    was, now = (dict(part.partition(" ")[::2] for part in one.split(", ")) for one in (old, new))
    shared = next((key for key in was if key in now), None)
    return shared is None or was[shared] != now[shared]


def _replaced(old: TableFacts, new: TableFacts) -> str:
    return f"another table has its name now, or it was made again ({old.object}, now {new.object})"


def _waits(old: TableFacts, new: TableFacts, cursor: Cursor | None) -> FactsVerdict | None:
    """Where rows could be lost until something is as it was."""
    had, has = old.guarantee, new.guarantee
    other = old.server is not None and new.server is not None and old.server != new.server
    if other and cursor is not None and cursor.kind != "timestamp+pk":
        why = (
            f"another server answers, or another timeline of it ({old.server}, now {new.server}): numbers that the"
            f" former one handed out may be handed out again, below the checkpoint {cursor}, so no row is read"
        )
        return FactsVerdict(Does.WAIT, why, step="If no committed row was lost: poller rebind --after-failover.")
    if had is None or has is None or has.asked:
        return None
    if _RANKS.get(has.kind, 9) >= _RANKS.get(had.kind, 0):
        return None
    why = f"rows were read below a bound that is {had.kind}, and only {has.kind} is available now"
    why = f"{why}: {has.why}" if has.why else why
    return FactsVerdict(
        Does.WAIT, why, step=f"Undo what changed it, and the poller goes on automatically; or {ACCEPT}."
    )


def _key_changed(old: CursorColumn, new: CursorColumn) -> str:
    """Why a key's values may sort otherwise than they did; empty if they do not."""
    if _sorts_otherwise(old, new):
        return f"key column {new.name} sorts by {new.collation} now, and sorted by {old.collation}"
    if old.family is Family.INTEGER and new.family in NUMBERS and not _is_smaller(old, new):
        return ""
    if old.family is not new.family or (old.family not in MOMENTS and not _holds_all(old, new)):
        return f"key column {new.name} is of type {_kind(new)} now, and was {_kind(old)}"
    return f"key column {new.name} holds fewer digits now" if _holds_less(old, new) else ""


def _kind(column: CursorColumn) -> str:
    return column.sql_type or column.family.value


def _sorts_otherwise(old: CursorColumn, new: CursorColumn) -> bool:
    return old.collation is not None and new.collation is not None and old.collation != new.collation


def _is_smaller(old: CursorColumn, new: CursorColumn) -> bool:
    """True if fewer integers fit; by the name of the type, if it is known."""
    sizes = [_SIZES.index(one.sql_type) if one.sql_type in _SIZES else -1 for one in (old, new)]
    return -1 not in sizes and sizes[1] < sizes[0]


def _holds_all(old: CursorColumn, new: CursorColumn) -> bool:
    """True if the new type holds all values of the old one, in the same order; both of one family, without times."""
    if old.sql_type == new.sql_type or (old.sql_type, new.sql_type) == _TEXTS:
        return True
    was, now = _PLACES.fullmatch(old.sql_type), _PLACES.fullmatch(new.sql_type)
    if old.family is not Family.NUMERIC or was is None:
        return False
    if now is None:
        return new.sql_type == old.sql_type.partition("(")[0]  # any places
    return int(now["scale"]) >= int(was["scale"]) and _whole(now) >= _whole(was)


def _whole(places: re.Match[str]) -> int:
    return int(places["digits"]) - int(places["scale"])


def _holds_less(old: CursorColumn, new: CursorColumn) -> bool:
    """True if values may have been rounded."""
    if old.family in MOMENTS:
        return new.digits < old.digits
    was, now = _PLACES.fullmatch(old.sql_type), _PLACES.fullmatch(new.sql_type)
    if now is None or old.family is not Family.NUMERIC:
        return False
    return was is None or int(now["scale"]) < int(was["scale"])


def _moment_of_another_column(cursor: Cursor, column: CursorColumn, *, is_table: bool) -> str:
    """Why this text cannot have come from this column; empty if it can."""
    if cursor.kind != "timestamp+pk":
        return ""
    if column.form is not None:
        # Only for a row's own text: a `start_from` may have another form.
        fits = cursor.tiebreaker is None or column.form.pattern().fullmatch(cursor.value)
        return "" if fits else "the column's text is written in another form now"
    found = _MOMENT.fullmatch(cursor.value)
    if found is None:
        return ""  # an infinity, a year before 1, a date: the database refuses what it does not take
    if column.family is Family.DATE:
        return "the column holds dates now"
    if column.family is Family.TIMESTAMPTZ and not found["zone"]:
        return "the column has a time zone now, and had none"
    if column.family is Family.TIMESTAMP and found["zone"]:
        return "the column has no time zone now, and had one"
    lost = (found["fraction"] or "")[column.digits :]
    if is_table and lost.strip("0"):
        return f"the column holds {column.digits} digits of a second now"
    return ""


# ------------------------------------------------------------------------------------------------------- the document


def _as_json(column: CursorColumn) -> dict[str, Any]:
    form = column.form
    said: dict[str, Any] = {"family": column.family.value}
    if column.sql_type:
        said["type"] = column.sql_type
    if column.digits != CursorColumn.__dataclass_fields__["digits"].default:
        said["digits"] = column.digits
    if column.collation is not None:
        said["collation"] = column.collation
    if form is not None:
        said["form"] = {
            "separator": form.separator, "seconds": form.seconds, "digits": form.digits, "zone": form.zone
        }  # fmt: skip
    return said


def _column(name: str, said: Any) -> CursorColumn:
    """Raises: AttributeError, KeyError, TypeError, ValueError: not what this version writes."""
    kind, digits, form, collation = said.get("type", ""), said.get("digits", 6), said.get("form"), said.get("collation")
    if not isinstance(kind, str) or (kind and (len(kind) > LONGEST_TYPE or _TYPE.fullmatch(kind) is None)):
        raise ValueError("not the name of a type")
    if collation is not None and not (isinstance(collation, str) and len(collation) <= LONGEST_TEXT):
        raise ValueError("not the name of a collation")
    return CursorColumn(
        name=name,
        family=Family(said["family"]),
        sql_type=kind,
        digits=_number(digits),
        form=None if form is None else _form(form),
        collation=collation,
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
