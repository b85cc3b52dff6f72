"""The table: its key, the columns' types, NULLs, and the index that gives the order."""

from __future__ import annotations

from datetime import datetime

from poller.errors import SourceError
from poller.model.finding import Finding, error, ok, warn
from poller.sources.checkup.subject import Subject
from poller.sources.checkup.updates import fill_with_now
from poller.sources.columns import Column
from poller.sources.columns.uniqueness import proof_of
from poller.sources.records import PROBE
from poller.sources.user_sql.conditions import compared, same_condition

_EXAMPLE = datetime(2026, 4, 7, 1, 23, 45, 123456)  # noqa: DTZ001 - an example of a text


def key(subject: Subject) -> list[Finding]:
    """The key is NOT NULL and unique: otherwise rows would be skipped or repeated without any error."""
    o = subject.options
    if o.table is not None and not subject.inspector.has_table(o.table, schema=o.schema_name):
        return []  # the check of the columns names it
    if o.table is None or not subject.is_base_table:
        kind = "A query" if o.table is None else f"{o.what} is a view"
        return [
            warn(
                "key",
                f"{kind}: no constraint proves that {', '.join(o.pk_columns)} is unique and never"
                f" NULL. The first {PROBE:,} rows are checked, and every row as it is read.",
                "Read the table itself where you can.",
            )
        ]
    dialect = subject.database.dialect
    table = dialect.reflected(subject.inspector, o.table, o.schema_name, [o.cursor_column, *o.pk_columns])
    columns = table.columns
    if any(name not in columns for name in o.pk_columns):
        return []  # the check of the columns names it
    proof = proof_of(dialect.unique_sets(subject.inspector, o.table, o.schema_name), o.pk_columns, columns)
    found = []
    if not proof.unique:
        found.append(
            error(
                "key",
                f"No unique index covers {', '.join(o.pk_columns)}, so rows that share a cursor value could be"
                f" skipped.{f' Unique are: {proof.others}.' if proof.others else ''}",
                subject.create_index(list(o.pk_columns), unique=True),
            )
        )
    found += [
        error(
            "key",
            f"{name} may be NULL, and a row without a key is skipped.",
            subject.checks.set_not_null(subject, name),
        )
        for name in proof.nullable
    ]
    subject.weak_key = bool(found)
    if table.inherited and not found:
        return [
            warn(
                "key",
                f"Other tables inherit from {o.what}, and no index spans them: no constraint proves that"
                f" {', '.join(o.pk_columns)} is unique. The first {PROBE:,} rows are checked, and every row as it is"
                " read.",
                "Partition the table instead, where you can.",
            )
        ]
    return found or [ok("key", f"{', '.join(o.pk_columns)}: unique and never NULL")]


def columns(subject: Subject) -> list[Finding]:
    """The columns exist, and their types fit the kind of cursor."""
    try:
        known = subject.session.table.learn()
    except SourceError as refused:
        if subject.weak_key and refused.column in subject.options.pk_columns:
            return []
        raise
    if known is None:
        return [ok("columns", f"{subject.options.what} has no row yet: the first one shows its types")]
    message = "; ".join([f"cursor {_typed(known.cursor)}", *(f"key {_typed(column)}" for column in known.keys)])
    return [ok("columns", message)]


def _typed(column: Column) -> str:
    if column.form is not None:
        return f"{column.name} (text like {column.form.render(_EXAMPLE)})"
    return f"{column.name} ({column.family.value})"


def nulls(subject: Subject) -> list[Finding]:
    """Rows without a cursor: how many, and whether there may be any."""
    o, known = subject.options, subject.session.table.known
    firm = known is not None and known.cursor.nullable is False
    if known is None and o.table is not None:  # no row yet, but the columns are known
        dialect, name = subject.database.dialect, o.cursor_column
        table = dialect.reflected(subject.inspector, o.table, o.schema_name, [name, *o.pk_columns])
        firm = table.columns.get(name, {}).get("nullable") is False
    if firm:
        return [ok("nulls", f"{o.cursor_column} is never NULL")]
    count = subject.session.null_cursors(PROBE)
    many = f"{'at least ' if count == PROBE else ''}{count:,} row{'s have' if count != 1 else ' has'} no value in"
    fix = subject.checks.set_not_null(subject, o.cursor_column) if o.table is not None and subject.is_base_table else ""
    if count and not o.skip_nulls:
        fill = fill_with_now(subject, known.cursor) if known is not None and fix else ""
        return [
            error(
                "nulls",
                f"{many} {o.cursor_column} and would never be read, so nothing is read at all.",
                f"{fill} {fix}" if fill else 'Fill them in, or leave them out with on_null_cursor = "skip".',
            )
        ]
    if count:
        return [warn("nulls", f"{many} {o.cursor_column}; they are never delivered (on_null_cursor = skip)", fix)]
    if not fix:
        return [ok("nulls", f"no row without a value in {o.cursor_column}")]
    what = "would never be delivered" if o.skip_nulls else "would stop the poller"
    return [warn("nulls", f"{o.cursor_column} may be NULL; no row is now, but one {what}.", fix)]


def index(subject: Subject) -> list[Finding]:
    """An index on the cursor, then the key, so that a page costs the same wherever it begins."""
    o = subject.options
    if o.table is None or not subject.is_base_table:
        return []
    wanted = subject.order
    inspector, schema = subject.inspector, o.schema_name
    primary = list(inspector.get_pk_constraint(o.table, schema=schema).get("constrained_columns") or [])
    there = [primary, *(list(c["column_names"]) for c in inspector.get_unique_constraints(o.table, schema=schema))]
    invalid = subject.database.dialect.invalid_indexes(inspector, o.table, schema)
    for one in inspector.get_indexes(o.table, schema=schema):
        if one["name"] in invalid:
            continue
        limits = [v for k, v in (one.get("dialect_options") or {}).items() if k.endswith("_where") and v is not None]
        partial = any(not o.filter or not same_condition(str(v), o.filter, subject.family) for v in limits)
        sorting = one.get("column_sorting") or {}
        one_way = len({sorting.get(name, ()) for name in one["column_names"] if name in wanted}) == 1
        if not partial and one_way and None not in one["column_names"]:
            there.append([str(name) for name in one["column_names"]])
    implied = subject.checks.implied(primary)
    fixed = {*compared(o.filter, subject.family)} - {*wanted} if o.filter else set()
    for names in there:
        order = names[next((n for n, name in enumerate(names) if name not in fixed), len(names)) :]
        full = [*order, *(name for name in implied if name not in order)]
        if full[: len(wanted)] == wanted:
            return [ok("index", f"({', '.join(names)}) gives the order")]
    subject.index = subject.create_index(wanted)
    busy = f" (on a busy server: {subject.checks.without_lock})" if subject.checks.without_lock else ""
    return [
        warn(
            "index",
            f"No index begins with ({', '.join(wanted)}): every page reads and sorts the whole table{busy}.",
            subject.index,
        )
    ]
