"""The order: how the database finds a page, and whether each row's cursor leads to the next row."""

from __future__ import annotations

import time
from itertools import pairwise

from sqlalchemy.exc import DBAPIError

from poller.model.cursor import Cursor
from poller.model.finding import Finding, error, ok, warn
from poller.sources.checks import SMALL
from poller.sources.checkup.subject import PAGE, Subject
from poller.sources.faults import Fault

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
    highest = session.database.run(session.table.statements().highest()).rows
    last = None if not highest else Cursor(kind=subject.options.cursor_kind, value=str(highest[0][0]))
    proved = 0
    for place in dict.fromkeys([_text(None), _text(subject.after), _text(last)]):
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
