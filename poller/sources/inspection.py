"""What the database says of the table or query: columns, types, and whether the key is unique."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy.engine import Inspector
from sqlalchemy.exc import DBAPIError

from poller.databases import catalog
from poller.errors import ConfigError, SourceError
from poller.sources.columns import MOMENTS, NUMBERS, CursorColumn, Family, Reflected, proof_of
from poller.sources.connection import Database
from poller.sources.database import Dialect, Records, TypeLookup, Watch
from poller.sources.faults import SCHEMA_FAULTS
from poller.sources.options import ReadOptions
from poller.sources.page import Relation
from poller.sources.sqlite.forms import mixed_forms


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


def inspect_source(
    database: Database,
    options: ReadOptions,
    relation: Relation,
    quote: Callable[[str], str],
    ordering: Sequence[str] = (),
) -> Inspection | None:
    """Ask once. None if the types are not known until a row exists (SQLite, queries).

    `ordering`: the ordering key's columns, if they are not the key columns.

    Raises: SourceError naming the table or column; ConfigError naming `cursor_time_zone`; what the driver raises.
    """
    wanted = dict.fromkeys([options.cursor_column, *options.pk_columns])
    by_name = {name: f"{relation.alias}.{quote(name)}" for name in wanted}
    inspector = None if options.table is None else catalog.inspector(database.connection())
    table: Reflected | None = None
    described: Records | None = None
    refused: DBAPIError | None = None
    seen: Hashable = None
    try:  # before anything else is asked: what is changed meanwhile, a page shows
        chosen = "*" if inspector is None else ", ".join(by_name.values())
        described = database.run(database.dialect.limited(chosen, f"FROM {relation.sql}", 0))
        seen = database.dialect.seen(database.driver_connection(), described, wanted)
    except DBAPIError as error:
        if inspector is None or database.dialect.classify(error) not in SCHEMA_FAULTS:
            raise
        refused = error  # what is missing is named below
    if inspector is not None:
        if database.dialect.catalog_first:
            database.connection().exec_driver_sql(database.dialect.catalog_first)
        table = _reflect(database.dialect, inspector, options, list(wanted))
        names = tuple(table.columns)
    else:
        names = described.names if described is not None else ()
    _refuse_unknown(options, names, [*wanted, *(options.columns or ())])
    _refuse_unknown(options, names, ordering, key="ordering_key")
    if refused is not None:
        raise refused
    proven = table is not None and table.is_base and not table.inherited
    look = TypeLookup(
        relation=relation.sql,
        columns=by_name,
        reflected=None if table is None else table.columns,
        cursor=options.cursor_column,
        condition=relation.condition,
        keys=options.pk_columns,
        described=described,
        table=options.table,
        schema=options.schema_name,
        proven=table if proven else None,
    )
    if inspector is not None and table is not None and table.is_base:
        _refuse_weak_key(database.dialect, inspector, options, table.columns)
    columns = database.dialect.columns(look, database.run)
    if columns is None:
        return None
    cursor = columns[options.cursor_column]
    keys = tuple(columns[name] for name in options.pk_columns)
    _refuse_unfit(options, cursor, keys)
    of_text = [key.name for key in keys if key.family is Family.TEXT]
    watch = database.dialect.watch(look, of_text, database.run, database.connection())
    keys = tuple(replace(key, collation=watch.collations.get(key.name)) for key in keys)
    texts: Mapping[str, CursorColumn] = {}
    if ordering:
        by_name = {name: f"{relation.alias}.{quote(name)}" for name in ordering}
        texts = database.dialect.types(replace(look, columns=by_name, described=None), database.run)
    return Inspection(
        names=names,
        cursor=cursor,
        keys=keys,
        provable=proven,
        ordering=tuple(texts[name] for name in ordering),
        seen=seen,
        watch=watch,
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence with the most similar known name, or with some of them."""
    names = list(known)
    folded = {n.lower(): n for n in names}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    if near:
        return f"Did you mean {folded[near[0]]!r}?"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"There are: {shown}." if names else ""


def odd_value(options: ReadOptions, value: object, column: str | None = None) -> SourceError:
    """The error for a value unlike the others of its column (the cursor's, unless another is given)."""
    name = column or options.cursor_column

    def message(quoted: str) -> str:
        return (
            f"{options.what}: column {name} holds {quoted}, which has another form than its other values or is not a"
            " date; such rows do not sort by time."
        )

    return SourceError(
        message(repr(str(value)[:40])),
        without_values=message("a value"),
        table=options.what,
        column=name,
        next_step="Write all of them in one form, or leave the odd ones out with a `filter`.",
    )


def _reflect(dialect: Dialect, inspector: Inspector, options: ReadOptions, wanted: Sequence[str]) -> Reflected:
    table, schema = options.table or "", options.schema_name
    found = dialect.reflected(inspector, table, schema, wanted)
    if found.columns:
        return found
    known = [*inspector.get_table_names(schema=schema), *inspector.get_view_names(schema=schema)]
    elsewhere = f"Schema {schema!r} has none, or is not visible. " if schema and not known else ""
    raise SourceError(
        f"There is no table or view {options.what!r} that the poller's database user can see.",
        table=options.what,
        next_step=f"{elsewhere}{did_you_mean(table, known)} Check `table` and `schema`.".strip(),
    )


def _refuse_unknown(options: ReadOptions, names: tuple[str, ...], wanted: Iterable[str], key: str = "") -> None:
    doubles = {name for name in names if names.count(name) > 1}
    if doubles:
        raise SourceError(
            f"{options.what} has two columns named {min(doubles)!r}.",
            table=options.what,
            column=min(doubles),
            next_step="Give one of them another name with AS.",
        )
    for name in wanted:
        if name not in names:
            key = key or (
                "cursor_column"
                if name == options.cursor_column
                else "pk_columns"
                if name in options.pk_columns
                else "columns"
            )
            raise SourceError(
                f"{options.what} has no column {name!r} (key `{key}`).",
                table=options.what,
                column=name,
                next_step=did_you_mean(name, names),
            )


def _refuse_unfit(options: ReadOptions, cursor: CursorColumn, keys: tuple[CursorColumn, ...]) -> None:
    what = options.what
    if options.is_timed:
        if cursor.odd is not None:
            raise mixed_forms(options, cursor.odd.form, cursor.odd.value, dict(cursor.odd.key))
        if cursor.family not in MOMENTS and cursor.form is None:
            raise SourceError(
                f"{what}: cursor column {cursor.name} holds {_kind(cursor)} values, not timestamps.",
                table=what,
                column=cursor.name,
                next_step="Name a timestamp column; for seconds or milliseconds as a number, a generated column or a"
                ' `query` that makes a timestamp of them. cursor_kind = "integer+pk" is for numbers that a sequence or'
                " AUTOINCREMENT hands out.",
            )
        zoned = cursor.family is Family.TIMESTAMPTZ or (cursor.form is not None and cursor.form.zone != "")
        if not zoned and options.zone is None:
            raise ConfigError(
                f"`cursor_time_zone` is missing: column {cursor.name} of {what} has no time zone.",
                key="cursor_time_zone",
                next_step='Say what its values mean, for example cursor_time_zone = "UTC".',
            )
    elif not _FITS[options.cursor_kind](cursor):
        raise SourceError(
            f"{what}: cursor column {cursor.name} holds {_kind(cursor)} values, not {_HOLDS[options.cursor_kind]}.",
            table=what,
            column=cursor.name,
            next_step=f"Name a column of {_HOLDS[options.cursor_kind]}, or set `cursor_kind`.",
        )
    for key in keys:
        if key.family is Family.UNFIT:
            raise SourceError(
                f"{what}: key column {key.name} is of a type that has no exact text or no single order, or is NULL.",
                table=what,
                column=key.name,
                next_step="Use a key of integers, text, UUID, NUMERIC, dates or bytes.",
            )


_FITS: dict[str, Callable[[CursorColumn], bool]] = {
    "integer+pk": lambda column: column.family in NUMBERS,
    "xid8+pk": lambda column: column.sql_type == "xid8",
    "rowversion+pk": lambda column: column.family is Family.BYTES and column.sql_type == "binary(8)",
}
_HOLDS = {
    "integer+pk": "integers",
    "xid8+pk": "transaction ids (xid8)",
    "rowversion+pk": "row versions",
}


def _kind(column: CursorColumn) -> str:
    return "other" if column.family is Family.UNFIT else column.family.value


def _refuse_weak_key(
    dialect: Dialect, inspector: Inspector, options: ReadOptions, reflected: dict[str, dict[str, Any]]
) -> None:
    what = options.what
    sets = dialect.unique_sets(inspector, options.table or "", options.schema_name)
    proof = proof_of(sets, options.pk_columns, reflected)
    if not proof.unique:
        raise SourceError(
            f"{what}: no unique index covers the key {', '.join(options.pk_columns)}, so rows that share a timestamp"
            " could be skipped.",
            table=what,
            column=options.pk_columns[0],
            next_step=(
                f"Set `pk_columns` to one of: {proof.others}."
                if proof.others
                else "Create a unique index on columns that are NOT NULL."
            ),
        )
    for name in proof.nullable:
        raise SourceError(
            f"{what}: key column {name} may be NULL, and a row without a key could be skipped.",
            table=what,
            column=name,
            next_step=f"Declare {name} NOT NULL, or choose another key in `pk_columns`.",
        )
