"""Every statement over one table or query, in SQLAlchemy Core (sources.md, "The page query").

What a database must say in words of its own (the text of a value, its clock) is SQL of its `Dialect`; all else is
built here, once for each shape of a question, so that only values change from page to page.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Select, and_, or_
from sqlalchemy.sql.functions import Function

from poller.model.cursor import Cursor, KeyValue
from poller.sources.columns import MOMENTS, CursorColumn
from poller.sources.database import Dialect, PageForm

Params: TypeAlias = dict[str, Any]
Condition: TypeAlias = ColumnElement[bool]
Query: TypeAlias = Select[Any]
_T = TypeVar("_T")
_ONE: ColumnElement[Any] = sa.literal_column("1").label("poller_1")
_KEPT = 64
"""Statements of other limits than the last ones are built again."""


@dataclass(frozen=True)
class Relation:
    """What follows FROM: a quoted table or a wrapped query under its quoted alias, and the checked filter; SQL for
    `sqlalchemy.text`. `joined`: what follows it in FROM where rows are read, and `chosen`: the expressions that are
    selected instead of all columns."""

    sql: str
    alias: str
    condition: str | None = None
    wrapped: bool = False
    joined: str = ""
    chosen: Sequence[str] = ()

    @classmethod
    def table(cls, name: str, schema: str | None, condition: str | None, quote: Callable[[str], str]) -> Relation:
        """A table under its name, so that a filter may write `orders.status`."""
        full = quote(name) if schema is None else f"{quote(schema)}.{quote(name)}"
        return cls(sql=f"{full} AS {quote(name)}", alias=quote(name), condition=condition)

    @classmethod
    def query(cls, sql: str, condition: str | None) -> Relation:
        """A query, on separate lines, so that a comment at its end ends there."""
        return cls(sql=f"(\n{sql}\n) AS poller_query", alias="poller_query", condition=condition, wrapped=True)


@dataclass(frozen=True)
class Span:
    """An interval of the order: a condition and what it binds.

    Attributes:
        shape: equal for the same condition of one `Statements`.
    """

    where: Condition = field(compare=False)
    params: Params
    shape: Hashable


def plain(sql: str) -> ColumnElement[Any]:
    """An expression of SQL that is ready for `sqlalchemy.text`."""
    return sa.literal_column(sql.replace("\\:", ":"))


class Statements:
    """All statements over one relation and one order."""

    def __init__(
        self,
        dialect: Dialect,
        quote: Callable[[str], str],
        relation: Relation,
        cursor: CursorColumn,
        keys: Sequence[CursorColumn],
        projection: Sequence[str] | None,
        helpers: Sequence[CursorColumn] = (),
        ordering: Sequence[CursorColumn] = (),
        guard: str = "",
    ) -> None:
        self._dialect = dialect
        self._relation = relation
        self._cursor = cursor
        # A key column that is also the cursor column is equal everywhere inside a tie: it need not be compared again.
        self._keys = [key for key in keys if key.name != cursor.name]
        self._all_keys = keys
        self._quoted: Callable[[str], str] = lambda name: f"{relation.alias}.{quote(name)}"
        self._from = sa.text(relation.sql)
        self._joined = sa.text(relation.sql + relation.joined)
        self._condition = [] if relation.condition is None else [sa.text(relation.condition)]
        self._guard = [plain(guard)] if guard else []
        self._c = plain(self._quoted(cursor.name))
        self._k = [plain(self._quoted(key.name)) for key in self._keys]
        self._order = [self._c, *self._k]
        chosen = ["*"] if projection is None else projection
        self._chosen = [plain(f"{relation.alias}.*" if name == "*" else self._quoted(name)) for name in chosen]
        if projection is None and relation.chosen:
            self._chosen = [plain(one) for one in relation.chosen]
        rendered = [dialect.render(self._quoted(one.name), one) for one in (cursor, *helpers)]
        texts = [dialect.text(self._quoted(one.name), one) for one in ordering]
        self._named = [plain(sql).label(f"poller_cursor_{i}") for i, sql in enumerate(rendered)]
        self._named += [plain(sql).label(f"poller_ordering_{i}") for i, sql in enumerate(texts)]
        self._after: list[ColumnElement[Any]] = []
        self._kept: dict[Hashable, Any] = {}

    # ---------------------------------------------------------------------------------------------------- the page

    def ranges(
        self, after: Cursor | None, below: str | None, *, inclusive: bool = False, until: Cursor | None = None
    ) -> list[Span]:
        """The intervals to read one after the other: one, or two where a tie has to be read separately. `until`: no row
        beyond it either."""
        shape = ("ranges", _shape(after), None if below is None else inclusive, _shape(until))
        params = self._values(after) | self._values(until, "high", "h")
        if below is not None:
            params["bound"] = self._dialect.bind(below, self._cursor)

        def made() -> list[Condition]:
            fixed = self._fixed()
            if below is not None:
                end = self._value("bound")
                fixed.append(self._c <= end if inclusive else self._c < end)
            fixed += [] if until is None else [self._up_to(until)]
            if after is None or after.tiebreaker is None or self._dialect.form is PageForm.ROW_VALUES or not self._k:
                return [and_(*fixed, *self._behind(after))]
            value = self._value()
            tie = and_(self._c >= value, self._c <= value) if self._dialect.ties_are_ranges else self._c == value
            return [and_(*fixed, tie, self._inside(">", form=self._dialect.key_form)), and_(*fixed, self._c > value)]

        return [Span(where, params, (shape, at)) for at, where in enumerate(self._once(shape, made))]

    def of_key(self, key: Mapping[str, KeyValue]) -> Span:
        """The rows with this key, of all columns of the key: one at most."""
        params = {f"k{i}": self._dialect.bind(key[one.name], one) for i, one in enumerate(self._all_keys)}
        return Span(self._once("key", lambda: and_(*self._fixed(), *self._same_key())), params, "key")

    def of_key_from(self, at: Cursor) -> Span:
        """The row with a cursor's key, if it is at this cursor or a later one."""
        params = self.of_key(at.tiebreaker or {}).params | self._limit(at)
        where = self._once("from", lambda: and_(*self._fixed(), *self._same_key(), self._c >= self._value()))
        return Span(where, params, "from")

    def up_to(self, at: Cursor) -> Span:
        """The rows with a cursor's value or a lower one."""
        where = self._once("up to", lambda: and_(*self._fixed(), self._c <= self._value()))
        return Span(where, self._limit(at), "up to")

    def select(self, interval: Span, limit: int, *, exact: bool = False) -> tuple[Query, Params]:
        """Up to `limit` rows of an interval: the user's columns, the cursor's text (unless the driver's value is
        `exact`), the other helpers, the ordering key's texts."""

        def made() -> Query:
            where = and_(*self._guard, interval.where)
            columns = [*self._chosen, *self._named[1 if exact else 0 :], *self._after]
            return self._rows(where, limit, *columns, of=self._joined)

        return self._once((interval.shape, limit, exact), made), interval.params

    def any_of(self, interval: Span) -> tuple[Query, Params]:
        """The question whether an interval has a row: the page's statement for one row, without its values."""
        made = self._once((interval.shape, "any"), lambda: self._rows(interval.where, 1, _ONE))
        return made, interval.params

    def showing(self, chosen: Sequence[str], after: Sequence[str]) -> Statements:
        """The same with these expressions for the user's columns, and others after all helpers."""
        other = copy(self)
        other._chosen, other._after, other._kept = [*map(plain, chosen)], [*map(plain, after)], {}
        return other

    # --------------------------------------------------------------------------------------------------- the counts

    def lag(self, interval: Span, cap: int, *, nulls: int | None = None) -> tuple[Query, Params]:
        """Of an interval: how many rows up to `cap`, the oldest cursor as text, and the server's clock. With `nulls`
        also, as `nulls` counts it, how many rows have no cursor."""

        def made() -> Query:
            page = self._rows(interval.where, cap, self._c.label("poller_c")).subquery("poller_p")
            timed = self._cursor.family in MOMENTS or self._cursor.form is not None  # not all that sorts has a MIN
            oldest = plain(self._dialect.render("MIN(poller_c)", self._cursor)) if timed else sa.null()
            found = [sa.func.count().label("poller_many"), oldest.label("poller_oldest")]
            counted = sa.select(*found, plain(self._dialect.clock).label("poller_clock")).select_from(page)
            if nulls is None:
                return counted
            missing = self.nulls(nulls)[0].subquery("poller_n")
            return sa.select(sa.text("*")).select_from(counted.subquery("poller_l").join(missing, sa.true()))

        return self._once((interval.shape, "lag", cap, nulls), made), interval.params

    def between(self, low: Cursor | None, high: Cursor, cap: int) -> tuple[Query, Params]:
        """The number of rows after `low` and up to `high`, counted up to `cap`."""
        where, params = self._between(low, high)
        return self._counted(where, cap), params

    def at(self, low: Cursor | None, high: Cursor, number: int) -> tuple[Query, Params]:
        """The row with that number, from 1, of those after `low` and up to `high`."""
        where, params = self._between(low, high)
        return self._rows(where, 1, *self._chosen, *self._named).offset(sa.literal(number - 1, sa.BigInteger)), params

    def nulls(self, cap: int) -> tuple[Query, Params]:
        """The number of rows that have no cursor, up to `cap`."""
        claimed = self._cursor.nullable is None and not self._relation.wrapped
        missing = self._dialect.is_null(self._quoted(self._cursor.name))
        return self._counted(and_(*self._condition, plain(missing) if claimed else self._c.is_(None)), cap), {}

    def holding(self) -> Query:
        """The question whether any row's cursor is this very value (`:v`)."""
        return self._counted(and_(*self._condition, self._c == self._value()), 1)

    def bad_keys(self, cap: int) -> list[tuple[str, Query]]:
        """Where no constraint proves the key: whether any of `cap` rows has a NULL in it, and whether two share it."""
        keys = [*self._k, self._c] if len(self._keys) < len(self._all_keys) else self._k
        named = [key.label(f"poller_k{i}") for i, key in enumerate(keys)]
        page = sa.select(*named).select_from(self._from).where(*self._condition).limit(cap).subquery("poller_p")
        twice = sa.select(*page.c).group_by(*page.c).having(sa.func.count() > 1).subquery("poller_g")
        missing = or_(*(one.is_(None) for one in page.c))
        return [
            ("NULL", sa.select(sa.func.count()).select_from(page).where(missing)),
            ("twice", sa.select(sa.func.count()).select_from(twice)),
        ]

    # ----------------------------------------------------------------------------------------------------- one value

    def round_trip(self, column: CursorColumn) -> Query:
        """A text (`:v`) through the column's type and back, in the column's own form."""
        given = sa.select(self._value("v", column).label("poller_v")).subquery("poller_q")
        return sa.select(plain(self._dialect.render("poller_v", column))).select_from(given)

    def clock(self) -> Query:
        """The server's clock in UTC."""
        return sa.select(plain(self._dialect.clock))

    def highest(self, *, below: bool = False) -> Query:
        """The greatest cursor as text; `below`: of those below `:below`."""
        limit = [self._c < self._value("below")] if below else []
        text = plain(self._dialect.render(self._quoted(self._cursor.name), self._cursor))
        found = sa.select(text).select_from(self._from).where(*self._fixed(), *limit)
        return found.order_by(self._c.desc()).limit(1)

    # --------------------------------------------------------------------------------------------------------- parts

    def _once(self, shape: Hashable, make: Callable[[], _T]) -> _T:
        """What was made for this shape before."""
        found: _T | None = self._kept.get(shape)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            found = self._kept[shape] = make()
        return found

    def _rows(
        self, where: Condition, limit: int, *columns: ColumnElement[Any], of: sa.TextClause | None = None
    ) -> Query:
        source = self._from if of is None else of
        found = sa.select(*columns).set_label_style(sa.LABEL_STYLE_NONE).select_from(source)
        return found.where(where).order_by(*self._order).limit(limit)

    def _counted(self, where: Condition, cap: int) -> Query:
        page = sa.select(_ONE).select_from(self._from).where(where).limit(cap).subquery("poller_p")
        return sa.select(sa.func.count().label("poller_counted")).select_from(page)

    def _fixed(self) -> list[Any]:
        return [*self._condition, self._c.is_not(None)]

    def _between(self, low: Cursor | None, high: Cursor) -> tuple[Condition, Params]:
        where = self._once(
            ("between", _shape(low), _shape(high)),
            lambda: and_(*self._fixed(), *self._behind(low), self._up_to(high)),
        )
        return where, self._values(low) | self._values(high, "high", "h")

    def _behind(self, after: Cursor | None) -> list[Condition]:
        """Behind a cursor, in one condition."""
        if after is None:
            return []
        value = self._value()
        if after.tiebreaker is None:
            return [self._c >= value]
        if not self._k:
            return [self._c > value]
        if self._dialect.form is PageForm.ROW_VALUES:
            return [sa.tuple_(*self._order) > sa.tuple_(value, *self._parts("k"))]
        return [self._c >= value, or_(self._c > value, and_(self._c == value, self._inside(">")))]

    def _up_to(self, high: Cursor) -> Condition:
        """Not after `high`; below it, if it means "at or after"."""
        value = self._value("high")
        if high.tiebreaker is None:
            return self._c < value
        tie = and_(self._c == value, self._inside("<=", "h")) if self._k else self._c == value
        return and_(self._c <= value, or_(self._c < value, tie))

    def _same_key(self) -> list[Condition]:
        return [plain(self._quoted(one.name)) == self._value(f"k{i}", one) for i, one in enumerate(self._all_keys)]

    def _inside(self, how: str, prefix: str = "k", form: PageForm = PageForm.AND_OR) -> Condition:
        """The key compared with the cursor's, inside a tie: `how` is `>`, or `<=` for a count."""
        parts = self._parts(prefix)
        if len(self._k) > 1 and form is PageForm.ROW_VALUES:
            return sa.tuple_(*self._k) > sa.tuple_(*parts)
        found: Condition = self._k[-1] > parts[-1] if how == ">" else self._k[-1] <= parts[-1]
        for column, part in zip(self._k[-2::-1], parts[-2::-1], strict=True):
            found = or_(column > part if how == ">" else column < part, and_(column == part, found))
        if len(self._k) == 1:
            return found
        # The first key's range as well, so that an index on it is used.
        return and_(self._k[0] >= parts[0] if how == ">" else self._k[0] <= parts[0], found)

    def _parts(self, prefix: str) -> list[ColumnElement[Any]]:
        return [self._value(f"{prefix}{i}", key) for i, key in enumerate(self._keys)]

    def _value(self, name: str = "v", column: CursorColumn | None = None) -> ColumnElement[Any]:
        """What is bound, as the type of a column, the cursor's unless another is given."""
        # Another type would let a driver's dialect add a CAST of its own.
        value: ColumnElement[Any] = sa.bindparam(name, type_=sa.types.NullType())
        for kind in self._dialect.casts(column or self._cursor):
            # `sqlalchemy.cast` leaves the CAST out if MySQL's dialect does not know the type.
            value = Function("CAST", value.op("AS")(plain(kind)))
        return value

    def _values(self, at: Cursor | None, name: str = "v", prefix: str = "k") -> Params:
        """What a cursor binds."""
        if at is None:
            return {}
        found = self._limit(at, name)
        for i, key in enumerate(self._keys if at.tiebreaker is not None else ()):
            found[f"{prefix}{i}"] = self._dialect.bind((at.tiebreaker or {})[key.name], key)
        return found

    def _limit(self, at: Cursor, name: str = "v") -> Params:
        return {name: self._dialect.bind(at.value, self._cursor)}


def _shape(at: Cursor | None) -> bool | None:
    return None if at is None else at.tiebreaker is not None
