"""A filter that few rows pass: the checkpoint is at the last row that did, and every page and every measurement of the
lag reads all rows after it, only to leave them out, unless an index contains the filter too."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

from poller.model.finding import Finding, ok, warn
from poller.sources.checks import SMALL
from poller.sources.checkup.subject import PAGE, Subject
from poller.sources.faults import Fault


def selective(subject: Subject) -> list[Finding]:
    """How many rows an idle page reads, measured where the database reports it."""
    if subject.options.filter is None or subject.session.learn() is None:
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
    """How many rows the idle page reads, in words; empty where they are few."""
    statements = subject.session.statements()
    last = subject.idle
    if subject.rows_after(last) <= SMALL:
        return ""
    count = 0
    for interval in statements.ranges(last, None):
        sql, params = statements.select(interval, PAGE)
        count += subject.checks.dropped(subject, sql, params)
    if count <= SMALL:
        return ""
    return f"{count:,}" if subject.checks.counts_reads else f"{SMALL:,} or more"


def index_for_filter(subject: Subject) -> str:
    """The statement that creates an index containing the filter, as the database supports it, or what to do instead."""
    text = (subject.options.filter or "").strip()
    if subject.options.table is None or not subject.is_base_table:
        return "Create an index on the table that begins with the columns that `filter` compares, or is limited to it."
    return subject.checks.filter_index(subject, text)
