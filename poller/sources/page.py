"""The statements (sources.md, "The page query"). SQLAlchemy quotes names, values are bound, and `filters` checked the
user's SQL. Nothing here talks to a database."""

# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from poller.model.cursor import Cursor, KeyValue
from poller.sources.columns import MOMENTS, Column
from poller.sources.database import Dialect, PageForm

Params = dict[str, Any]


@dataclass(frozen=True)
class Relation:
    """What follows FROM: a quoted table or a wrapped query under its quoted alias, and the checked filter."""

    sql: str
    alias: str
    condition: str | None = None
    wrapped: bool = False

    @classmethod
    def table(
        cls, name: str, schema: str | None, condition: str | None, quote: Callable[[str], str], dialect: Dialect
    ) -> Relation:
        """A table under its name, so that a filter may write `orders.status`."""
        full = quote(name) if schema is None else f"{quote(schema)}.{quote(name)}"
        return cls(sql=f"{full} {dialect.alias_word}{quote(name)}", alias=quote(name), condition=condition)

    @classmethod
    def query(cls, sql: str, condition: str | None, dialect: Dialect) -> Relation:
        """A query, on separate lines, so that a comment at its end ends there."""
        return cls(
            sql=f"(\n{sql}\n) {dialect.alias_word}poller_query", alias="poller_query", condition=condition, wrapped=True
        )


@dataclass(frozen=True)
class Range:
    """An interval of the order: a condition and what it binds."""

    where: str
    params: Params


class Statements:
    """All statements over one relation and one order."""

    def __init__(
        self,
        dialect: Dialect,
        quote: Callable[[str], str],
        relation: Relation,
        cursor: Column,
        keys: Sequence[Column],
        projection: Sequence[str] | None,
        helpers: Sequence[Column] = (),
        ordering: Sequence[Column] = (),
    ) -> None:
        self._dialect = dialect
        self._relation = relation
        self._cursor = cursor
        # A key column that is also the cursor column is equal everywhere inside a tie: it need not be compared again.
        self._keys = [key for key in keys if key.name != cursor.name]
        self._all_keys = keys
        self._key_holds_cursor = len(self._keys) < len(keys)
        self._quoted: Callable[[str], str] = lambda name: f"{relation.alias}.{quote(name)}"
        c = self._quoted(cursor.name)
        self._c = c
        self._k = [self._quoted(key.name) for key in self._keys]
        self._order = ", ".join([c, *self._k])
        chosen = [f"{relation.alias}.*"] if projection is None else [self._quoted(name) for name in projection]
        rendered = [dialect.render(c, cursor), *(dialect.render(self._quoted(h.name), h) for h in helpers)]
        texts = [dialect.text(self._quoted(column.name), column) for column in ordering]
        named = [f"{sql} {dialect.alias_word}poller_cursor_{i}" for i, sql in enumerate(rendered)]
        named += [f"{sql} {dialect.alias_word}poller_ordering_{i}" for i, sql in enumerate(texts)]
        self._named = named
        self._select = ", ".join([*chosen, *named])
        self._select_exact = ", ".join([*chosen, *named[1:]])

    # ---------------------------------------------------------------------------------------------------- the page

    def ranges(
        self, after: Cursor | None, below: str | None, *, inclusive: bool = False, until: Cursor | None = None
    ) -> list[Range]:
        """The intervals to read one after the other: one, or two where a tie has to be read separately. `until`: no row
        beyond it either."""
        fixed, params = self._fixed(below, inclusive=inclusive)
        if until is not None:
            up_to, end = self._up_to(until)
            fixed, params = [*fixed, up_to], params | end
        if after is None or after.tiebreaker is None or self._dialect.form is not PageForm.TWO_RANGES or not self._k:
            condition, bound = self._after(after)
            return [Range(_join([*fixed, condition]), params | bound)]
        value, bound = self._value(after)
        inside, keys = self._key_condition(after, ">", self._dialect.key_form)
        return [
            Range(_join([*fixed, self._dialect.tie(self._c, value), inside]), params | bound | keys),
            Range(_join([*fixed, f"{self._c} > {value}"]), params | bound),
        ]

    def of_key(self, key: Mapping[str, KeyValue]) -> Range:
        """The rows with this key, of all columns of the key: one at most."""
        fixed, params = self._fixed(None)
        for i, column in enumerate(self._all_keys):
            fixed.append(f"{self._quoted(column.name)} = {self._dialect.cast(f':k{i}', column)}")
            params = params | {f"k{i}": self._dialect.bind(key[column.name], column)}
        return Range(_join(fixed), params)

    def of_key_from(self, at: Cursor) -> Range:
        """The row with a cursor's key, if it is at this cursor or a later one."""
        found, (value, bound) = self.of_key(at.tiebreaker or {}), self._value(at)
        return Range(f"{found.where} AND {self._c} >= {value}", found.params | bound)

    def up_to(self, at: Cursor) -> Range:
        """The rows with a cursor's value or a lower one."""
        fixed, _ = self._fixed(None)
        value, bound = self._value(at)
        return Range(_join([*fixed, f"{self._c} <= {value}"]), bound)

    def select(self, interval: Range, limit: int, *, exact: bool = False) -> tuple[str, Params]:
        """Up to `limit` rows of an interval: the user's columns, the cursor's text (unless the driver's value is
        `exact`), the other helpers, the ordering key's texts."""
        rest = f"FROM {self._relation.sql} WHERE {interval.where} ORDER BY {self._order}"
        return self._dialect.limited(self._select_exact if exact else self._select, rest, limit), interval.params

    def any_of(self, interval: Range) -> tuple[str, Params]:
        """Whether an interval has a row: the page's statement for one row, without its values."""
        rest = f"FROM {self._relation.sql} WHERE {interval.where} ORDER BY {self._order}"
        return self._dialect.limited(f"1 {self._dialect.alias_word}poller_1", rest, 1), interval.params

    def showing(self, chosen: Sequence[str], after: Sequence[str]) -> Statements:
        """The same with these expressions for the user's columns, and others after all helpers."""
        other = copy(self)
        other._select = ", ".join([*chosen, *self._named, *after])
        other._select_exact = ", ".join([*chosen, *self._named[1:], *after])
        return other

    # --------------------------------------------------------------------------------------------------- the counts

    def lag(self, interval: Range, cap: int, *, nulls: int | None = None) -> tuple[str, Params]:
        """Of an interval: how many rows up to `cap`, the oldest cursor as text, and the server's clock. With `nulls`
        also, as `nulls` counts it, how many rows have no cursor."""
        rest = f"FROM {self._relation.sql} WHERE {interval.where} ORDER BY {self._order}"
        inner = self._dialect.limited(f"{self._c} {self._dialect.alias_word}poller_c", rest, cap)
        timed = self._cursor.family in MOMENTS or self._cursor.form is not None  # not every type that sorts has a MIN
        oldest = self._dialect.render("MIN(poller_c)", self._cursor) if timed else "NULL"
        word = self._dialect.alias_word
        found = {"poller_many": "COUNT(*)", "poller_oldest": oldest, "poller_clock": self._dialect.clock}
        named = ", ".join(f"{expression} {word}{name}" for name, expression in found.items())
        sql = f"SELECT {named} FROM ({inner}) {word}poller_p"
        if nulls is not None:
            missing = self.nulls(nulls, f" {word}poller_missing")[0]
            sql = f"SELECT * FROM ({sql}) {word}poller_l CROSS JOIN ({missing}) {word}poller_n"
        return sql, interval.params

    def between(self, low: Cursor | None, high: Cursor, cap: int) -> tuple[str, Params]:
        """How many rows there are after `low` and up to `high`, counted up to `cap`."""
        where, params = self._between(low, high)
        return self._counted(where, cap), params

    def at(self, low: Cursor | None, high: Cursor, number: int) -> tuple[str, Params]:
        """The row with that number, from 1, of those after `low` and up to `high`."""
        where, params = self._between(low, high)
        rest = f"FROM {self._relation.sql} WHERE {where} ORDER BY {self._order}"
        return self._dialect.at(self._select, rest, number - 1), params

    def nulls(self, cap: int, named: str = "") -> tuple[str, Params]:
        """How many rows have no cursor, up to `cap`."""
        claimed = self._cursor.nullable is None and not self._relation.wrapped
        missing = self._dialect.is_null(self._c) if claimed else f"{self._c} IS NULL"
        return self._counted(_join([self._relation.condition, missing]), cap, named), {}

    def holding(self) -> str:
        """Whether any row's cursor is this very value (`:v`)."""
        value = self._dialect.cast(":v", self._cursor)
        return self._counted(_join([self._relation.condition, f"{self._c} = {value}"]), 1)

    def bad_keys(self, cap: int) -> list[tuple[str, str]]:
        """Where no constraint proves the key: whether any of `cap` rows has a NULL in it, and whether two share it."""
        keys = [*self._k, self._c] if self._key_holds_cursor else self._k
        names = [f"poller_k{i}" for i in range(len(keys))]
        columns = ", ".join(f"{k} {self._dialect.alias_word}{n}" for k, n in zip(keys, names, strict=True))
        filtered = f" WHERE {self._relation.condition}" if self._relation.condition else ""
        inner = self._dialect.limited(columns, f"FROM {self._relation.sql}{filtered}", cap)
        source = f"FROM ({inner}) {self._dialect.alias_word}poller_p"
        group = ", ".join(names)
        grouped = f"SELECT {group} {source} GROUP BY {group} HAVING COUNT(*) > 1"
        missing = " OR ".join(f"{n} IS NULL" for n in names)
        return [
            ("NULL", self._dialect.limited("COUNT(*)", f"{source} WHERE {missing}", 1)),
            ("twice", f"SELECT COUNT(*) FROM ({grouped}) {self._dialect.alias_word}poller_g"),
        ]

    # ----------------------------------------------------------------------------------------------------- one value

    def round_trip(self, column: Column) -> str:
        """A text through the column's type and back, in the column's own form."""
        return f"SELECT {self._dialect.render(self._dialect.cast(':v', column), column)}{self._dialect.one_row}"

    def clock(self) -> str:
        """The server's clock in UTC."""
        return f"SELECT {self._dialect.clock}{self._dialect.one_row}"

    def highest(self, *, below: bool = False) -> str:
        """The greatest cursor as text; `below`: of those below `:below`."""
        limit = f"{self._c} < {self._dialect.cast(':below', self._cursor)}" if below else None
        condition = _join([self._relation.condition, f"{self._c} IS NOT NULL", limit])
        rest = f"FROM {self._relation.sql} WHERE {condition} ORDER BY {self._c} DESC"
        return self._dialect.limited(self._dialect.render(self._c, self._cursor), rest, 1)

    # --------------------------------------------------------------------------------------------------------- parts

    def _fixed(self, below: str | None, *, inclusive: bool = False) -> tuple[list[str | None], Params]:
        conditions: list[str | None] = [self._relation.condition, f"{self._c} IS NOT NULL"]
        if below is None:
            return conditions, {}
        conditions.append(f"{self._c} {'<=' if inclusive else '<'} {self._dialect.cast(':bound', self._cursor)}")
        return conditions, {"bound": self._dialect.bind(below, self._cursor)}

    def _between(self, low: Cursor | None, high: Cursor) -> tuple[str, Params]:
        fixed, params = self._fixed(None)
        above, bound = self._after(low)
        up_to, end = self._up_to(high)
        return _join([*fixed, above, up_to]), params | bound | end

    def _value(self, at: Cursor, name: str = "v") -> tuple[str, Params]:
        return self._dialect.cast(f":{name}", self._cursor), {name: self._dialect.bind(at.value, self._cursor)}

    def _after(self, after: Cursor | None) -> tuple[str | None, Params]:
        if after is None:
            return None, {}
        value, params = self._value(after)
        if after.tiebreaker is None:
            return f"{self._c} >= {value}", params
        if not self._k:
            return f"{self._c} > {value}", params
        if self._dialect.form is PageForm.ROW_VALUES:
            binds, keys = self._key_binds(after, "k")
            return f"({self._order}) > ({', '.join([value, *binds])})", params | keys
        inside, keys = self._key_condition(after, ">", PageForm.AND_OR)
        return (
            f"{self._c} >= {value} AND ({self._c} > {value} OR ({self._c} = {value} AND {inside}))",
            params | keys,
        )

    def _up_to(self, high: Cursor) -> tuple[str, Params]:
        """Not after `high`; below it, where it means "at or after"."""
        value, params = self._value(high, "high")
        if high.tiebreaker is None:
            return f"{self._c} < {value}", params
        inside, keys = self._key_condition(high, "<=", PageForm.AND_OR, prefix="h")
        tie = f"({self._c} = {value} AND {inside})" if self._k else f"{self._c} = {value}"
        return f"{self._c} <= {value} AND ({self._c} < {value} OR {tie})", params | keys

    def _key_binds(self, at: Cursor, prefix: str) -> tuple[list[str], Params]:
        given = at.tiebreaker or {}
        params = {f"{prefix}{i}": self._dialect.bind(given[key.name], key) for i, key in enumerate(self._keys)}
        return [self._dialect.cast(f":{prefix}{i}", key) for i, key in enumerate(self._keys)], params

    def _key_condition(self, at: Cursor, how: str, form: PageForm, prefix: str = "k") -> tuple[str, Params]:
        """The key compared with the cursor's, inside a tie: `how` is `>` or `<=`."""
        if not self._k:
            return "1 = 1", {}
        binds, params = self._key_binds(at, prefix)
        if len(self._k) == 1:
            return f"{self._k[0]} {how} {binds[0]}", params
        if form is PageForm.ROW_VALUES:
            return f"({', '.join(self._k)}) {how} ({', '.join(binds)})", params
        strict = how[0]
        condition = f"{self._k[-1]} {how} {binds[-1]}"
        for column, bind in zip(self._k[-2::-1], binds[-2::-1], strict=True):
            condition = f"({column} {strict} {bind} OR ({column} = {bind} AND {condition}))"
        # The first key's range as well, so that an index on it is used.
        return f"{self._k[0]} {strict}= {binds[0]} AND {condition}", params

    def _counted(self, where: str, cap: int, named: str = "") -> str:
        inner = self._dialect.limited(
            f"1 {self._dialect.alias_word}poller_1", f"FROM {self._relation.sql} WHERE {where}", cap
        )
        return f"SELECT COUNT(*){named} FROM ({inner}) {self._dialect.alias_word}poller_p"


def _join(conditions: Sequence[str | None]) -> str:
    return " AND ".join(c for c in conditions if c)
