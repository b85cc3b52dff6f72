"""One row as the table has it now, by its primary key: for a row that a person sets aside, or hands over again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from poller.errors import SourceError
from poller.model.aside import RowFacts
from poller.model.cursor import Cursor, KeyValue
from poller.model.row_ids import id_of_key, id_of_values
from poller.ports import Row, Source


@dataclass(frozen=True, slots=True)
class CurrentRow:
    """A row as the table has it now.

    Attributes:
        facts: what the rules need to know of it. row_key: what `batch.key(row)` says.
        ordering_key: its columns and their values.
    """

    facts: RowFacts
    row: Row
    row_key: str
    ordering_key: Mapping[str, KeyValue | None]

    @property
    def cursor(self) -> Cursor:
        """Where it stands."""
        return self.facts.cursor


def current_row(source: Source, pk: Mapping[str, str]) -> CurrentRow | None:
    """The row with this key, all of whose columns are given; None if the table has none.

    Raises: SourceError (also for a source that cannot find rows by their keys), SourceUnavailable.
    """
    page = source.row_of(pk)
    if page is None:
        kind = type(source).__name__
        raise SourceError(f"This source ({kind}) does not find a row by its key.", next_step="Nothing was done.")
    if not page.rows:
        return None
    row, cursor = page.rows[0], page.cursors[0]
    values = (cursor.tiebreaker or {}) if page.ordering is None else page.ordering[0]
    row_key = source.key(row, cursor)
    facts = RowFacts(id_of_key(row_key), id_of_values(cursor.tiebreaker or {}), id_of_values(values), cursor)
    return CurrentRow(facts, row, row_key, dict(values))
