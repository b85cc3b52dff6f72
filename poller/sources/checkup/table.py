"""The table: its key, the columns' types, NULLs, the index that gives the order and how a page finds it, what changes
the cursor, views that return only some rows, and capture."""

from __future__ import annotations

import re
import time
from datetime import datetime
from itertools import pairwise

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from poller.errors import CaptureGap, SourceError
from poller.model.cursor import Cursor
from poller.model.finding import Finding, error, ok, warn
from poller.sources.checks import SMALL
from poller.sources.checkup.subject import PAGE, Subject
from poller.sources.columns import CursorColumn, TextForm, limits_of, proof_of
from poller.sources.faults import Fault
from poller.sources.records import PROBE
from poller.sources.stamping import ColumnOrigin, Reading, promises_updates, read
from poller.sources.user_sql import compared, same_condition

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


def _typed(column: CursorColumn) -> str:
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
        partial = any(not o.filter or not same_condition(sql, o.filter, subject.family) for sql in limits_of(one))
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


# -------------------------------------------------------------------------------------------------------------- updates
# Whether an UPDATE of a row changes its cursor: where nothing does, changed rows are never delivered.

NEW_ROWS_ONLY = "new rows only"


def updates(subject: Subject) -> list[Finding]:
    """What in the database changes the cursor's column when its row is updated; where nothing does although the
    column's name or type promises it, the statement that adds it."""
    o, found = subject.options, subject.origin
    name = o.cursor_column
    if o.capture:
        return []  # each UPDATE is a change of its own
    if found.table is None:
        return []  # an expression, or a definition that may not be read: the check of the time zone names it
    by = [rule.what for rule in found.rules if rule.updates]
    if by and all(rule.sql is None and not rule.firm for rule in found.rules if rule.updates):
        who = ", ".join(dict.fromkeys(by))
        return [ok("updates", f"{who} may change {name} with an UPDATE: it cannot be read; make sure that it does")]
    if by or o.cursor_kind == "rowversion+pk":
        return [ok("updates", f"an UPDATE changes {name}: {', '.join(dict.fromkeys(by)) or 'it is a rowversion'}")]
    if o.cursor_kind != "xid8+pk" and not promises_updates(name):
        return [ok("updates", f"{NEW_ROWS_ONLY}: {name} stays as it is when a row is updated")]
    unseen = f" Its {found.hidden} cannot be seen by this user." if found.hidden else ""
    return [
        warn(
            "updates",
            f"Nothing in the database changes {name} when a row is updated (no trigger, no ON UPDATE, no generated"
            f" expression): UPDATEs that do not set it themselves are never delivered.{unseen}",
            touching(subject, found) or f"Let a trigger set {name} at every UPDATE.",
        )
    ]


def touching(subject: Subject, found: ColumnOrigin) -> str:
    """The statements that give the column a new value at every UPDATE; empty where none is sure to."""
    value = _value(subject, found)
    schema = _schema(subject, found)
    table, name = schema + subject.name(found.table or ""), subject.name(f"{found.table}_set_{found.column}"[:60])
    changed = subject.checks.on_update(subject, found, table)
    if changed or not value:
        return changed
    return subject.checks.trigger(subject, found, schema=schema, name=name, value=value)


def _schema(subject: Subject, found: ColumnOrigin) -> str:
    """The table's schema and a dot, if a person would write it: it was configured, or the table was not."""
    o = subject.options
    needed = found.schema is not None and (o.schema_name is not None or found.table != o.table)
    return f"{subject.name(found.schema or '')}." if needed else ""


def _value(subject: Subject, found: ColumnOrigin) -> str:
    """What the trigger sets: the column's DEFAULT, or else the present time in the column's zone."""
    if subject.options.cursor_kind == "xid8+pk":
        return "pg_current_xact_id()"
    if found.table != subject.options.table and not subject.checks.keys_keep_names:
        return ""  # the key's columns may have other names in the table
    for rule in found.rules:
        if rule.is_default and rule.sql and read(rule.sql, subject.family)[0] in {Reading.FIXED, Reading.SESSION}:
            return f"({rule.sql.strip()})" if subject.checks.quotes_defaults else rule.sql.strip()
    known = subject.session.table.learn()
    if known is None:
        return ""
    if known.cursor.form is not None:
        return _strftime(known.cursor.form) if str(subject.options.zone or "UTC") == "UTC" else ""
    return now_in(subject, known.cursor)


def _strftime(form: TextForm) -> str:
    """SQLite's present time in the form of the column's texts; empty where SQLite cannot write that form."""
    if not form.separator:
        return "date('now')"
    if not form.seconds or form.zone not in {"", "Z", "+00:00"}:
        return ""
    seconds = "%f" if form.digits else "%S"
    more = "0" * max(0, form.digits - 3)
    return f"strftime('%Y-%m-%d{form.separator}%H:%M:{seconds}{more}{form.zone}', 'now')"


def fill_with_now(subject: Subject, column: CursorColumn) -> str:
    """The statement that sets missing times to the present, in the column's zone, whatever the zone of the session that
    runs it; empty where there is none. A time of another zone would lie above the bound, or below the checkpoint, where
    it is never read."""
    now = now_in(subject, column)
    if not now:
        return ""
    name = subject.name(column.name)
    return f"UPDATE {subject.table} SET {name} = {now} WHERE {name} IS NULL;"  # noqa: S608 - shown, not run


def now_in(subject: Subject, column: CursorColumn) -> str:
    """An expression for the present time in the column's zone, whatever the session's; empty where there is none."""
    return subject.checks.now(column, str(subject.options.zone or "UTC"))


# ------------------------------------------------------------------------------------------------------------ the order
# How the database finds a page, and whether each row's cursor leads to the next row.

PAIRS = 20
"""Neighbours checked at each of three places: the beginning, the checkpoint, the end."""
PATIENCE = 5.0
"""Seconds after which no further pair is checked: without an index each costs a scan."""
FORMS = 200_000
"""The number of texts that are checked for mixed forms."""


def plan(subject: Subject) -> list[Finding]:
    """The plan of a page: whether every page reads or sorts the whole table."""
    if subject.session.table.learn() is None:
        return []
    if not subject.big:
        return [ok("plan", f"fewer than {SMALL + 1:,} rows: any plan will do")]
    first = subject.after or next(iter(subject.session.span(None, None, 1).cursors), None)
    statements = subject.session.table.statements()
    slow: list[str] = []
    for place in (first, subject.idle):  # where the next page begins now, and when all is delivered
        for interval in statements.ranges(place, None):
            query, params = statements.select(interval, PAGE)
            found = subject.checks.slow_parts(subject, query, params)
            if found is None:
                return []
            slow += found
    if not slow:
        return [ok("plan", "a page is read along an index, without sorting")]
    fix = subject.index or (f"{subject.checks.analyze} {subject.table};" if subject.options.table is not None else "")
    if not subject.index and subject.options.filter is not None:
        fix = index_for_filter(subject)
    return [warn("plan", f"A page is not read along an index: {', '.join(dict.fromkeys(slow))}.", fix)]


def round_trip(subject: Subject) -> list[Finding]:
    """Check that each row's cursor, stored as text and bound back, leads to exactly the next row: tried on
    neighbours."""
    session = subject.session
    known = session.table.learn()
    if known is None or "mixed" in subject.facts:
        return []
    end = time.monotonic() + PATIENCE
    proved = 0
    for place in dict.fromkeys([_text(None), _text(subject.after), _text(subject.idle)]):
        start = None if not place else Cursor.model_validate_json(place)
        for again in (False, True):  # twice: rows may have been written between two reads
            count, broken = _pairs(subject, start, end)
            if broken is None:
                proved += count
                break
            if again:
                return [broken]
    if not proved:
        return [ok("round_trip", "no two neighbouring rows yet to prove it on")]
    return [ok("round_trip", f"proved on {proved} pairs of neighbouring rows")]


def _text(cursor: Cursor | None) -> str:
    return "" if cursor is None else cursor.model_dump_json()


def _pairs(subject: Subject, start: Cursor | None, end: float) -> tuple[int, Finding | None]:
    cursors = list(subject.session.span(start, None, PAIRS + 1).cursors)
    proved = 0
    for here, following in pairwise(cursors):
        if time.monotonic() > end:
            break
        kept = Cursor.model_validate_json(here.model_dump_json())
        found = list(subject.session.span(kept, None, 1).cursors)
        if found and found[0] == following:
            proved += 1
            continue
        got = f"to {found[0]}" if found else "to no row"
        lost = "the same row would be read for ever" if found and found[0] == here else "rows would be lost or repeated"
        return proved, error(
            "round_trip",
            f"The cursor {here} of one row does not lead to the next, {following}, but {got}: {lost}.",
            "Use cursor and key columns whose every value is written without loss and of one type, or exclude the odd"
            " rows with a `filter`.",
        )
    return proved, None


def forms(subject: Subject) -> list[Finding]:
    """SQLite sorts timestamps as text: one in another form than the others is read too early or never."""
    known = subject.session.table.learn()
    if known is None or known.cursor.form is None or not subject.options.is_timed:
        return []
    if subject.after is not None:
        subject.session.forms.look(known.cursor, subject.after)
    column = f"{subject.session.table.relation.alias}.{subject.session.table.quote(known.cursor.name)}"
    relation = subject.session.table.relation
    filtered = f" AND {relation.condition}" if relation.condition else ""
    sql = f"SELECT {column} FROM {relation.sql} WHERE {column} IS NOT NULL{filtered} LIMIT {FORMS}"  # noqa: S608
    values = [row[0] for row in subject.run(sql).rows]
    fits = known.cursor.form.pattern().fullmatch
    odd = [value for value in values if not isinstance(value, str) or not fits(value)]
    if not odd:
        many = f"the first {FORMS:,} rows" if len(values) == FORMS else f"all {len(values):,} rows"
        return [ok("forms", f"{many} write {known.cursor.name} in one form")]
    subject.facts["mixed"] = True
    quoted = repr(str(odd[0])[:40]) if subject.session.error_text else "a value"
    return [
        error(
            "forms",
            f"{len(odd):,} of {len(values):,} rows write {known.cursor.name} in another form than the first row:"
            f" {quoted}; they are sorted as text, so not by time.",
            "Write all of them in one form, or leave the odd ones out with a `filter`.",
        )
    ]


def selective(subject: Subject) -> list[Finding]:
    """The number of rows that an idle page reads, measured where the database reports it."""
    if subject.options.filter is None or subject.session.table.learn() is None:
        return []
    try:
        read = _read_and_dropped(subject)
    except DBAPIError as error:
        if subject.session.database.dialect.classify(error) is not Fault.TIMEOUT:
            raise
        text = "A page after the last row that passes `filter` is not read within `query_timeout`."
        return [warn("filter", text, index_for_filter(subject))]
    if not read:
        return [ok("filter", "few rows follow the last one that passes `filter`, or an index leaves the others out")]
    text = f"With no new rows, every page reads {read} rows after the last one that passes `filter`, and drops them."
    return [warn("filter", text, index_for_filter(subject))]


def _read_and_dropped(subject: Subject) -> str:
    """The number of rows that the idle page reads, in words; empty if they are few."""
    statements = subject.session.table.statements()
    last = subject.idle
    if subject.rows_after(last) <= SMALL:
        return ""
    count = 0
    for interval in statements.ranges(last, None):
        query, params = statements.select(interval, PAGE)
        count += subject.checks.dropped(subject, query, params)
    if count <= SMALL:
        return ""
    return f"{count:,}" if subject.checks.counts_reads else f"{SMALL:,} or more"


def index_for_filter(subject: Subject) -> str:
    """The statement that creates an index containing the filter, as the database supports it, or what to do instead."""
    text = (subject.options.filter or "").strip()
    if subject.options.table is None or not subject.is_base_table:
        return "Create an index on the table that begins with the columns that `filter` compares, or is limited to it."
    return subject.checks.filter_index(subject, text)


# ---------------------------------------------------------------------------------------------- what else the rows pass


_HEAD = re.compile(r"create\b.*?\bas\b\s*(?=select\b|with\b|\()", re.IGNORECASE | re.DOTALL)
"""The part of a view's definition in SQLite before the query."""


def limits(subject: Subject) -> list[Finding]:
    """A view that returns only some rows: the others are never read, as with a LIMIT in `query`, which is refused."""
    o = subject.options
    if o.table is None or subject.is_base_table:
        return []
    from poller.sources import user_sql  # loads a parser
    from poller.sources.user_sql.filters import limited_by

    try:
        sql = str(subject.inspector.get_view_definition(o.table, schema=o.schema_name) or "")
        sql = _HEAD.sub("", sql.strip().rstrip(";"))
        some = limited_by(sql, user_sql.tokens(sql, subject.family), subject.family, o.cursor_column)
    except (SQLAlchemyError, user_sql.Unreadable):
        return []
    if some is None:
        return []
    message = f"The view {o.table} returns only some rows ({some[:60]}): the others are never read."
    return [warn("relation", message, "Remove that from the view: every page has its own limit.")]


def captured(subject: Subject) -> list[Finding]:
    """What is installed, or why changes are or may be missing; nothing of a table that is not captured."""
    table = subject.session.captured
    if table is None:
        return []
    table.forget()
    try:
        found = table.look()
    except CaptureGap as gap:
        return [error("capture", gap.message, gap.next_step)]
    seen = "" if table.changes.sees_triggers else "; whether its triggers are there, this user cannot see"
    pruned = f", pruned up to {found.pruned_through}" if found.pruned_through else ""
    what = f"{len(found.columns)} columns of {found.what} are captured since {found.made_at}"
    return [ok("capture", f"{what}, in {table.changes.name}{pruned}{seen}")]
