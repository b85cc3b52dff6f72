"""On which facts of the table the caller's cursor rests, and where reading begins behind it if they are others now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy.exc import DBAPIError

from poller.model.cursor import Cursor
from poller.ports import Bound, TieAgain
from poller.sources.facts import Does, Guarantee, TableFacts, judge, read_facts, refuse_changed
from poller.sources.faults import Fault
from poller.sources.inspection import Inspection
from poller.sources.learned import Learned

_INCOMPARABLE = frozenset({Fault.VALUE, Fault.RANGE, Fault.OTHER})


class Basis:
    """The facts behind a cursor, compared with those of the table."""

    def __init__(self, table: Learned) -> None:
        self._table = table
        self._options = table.options
        self.known: TableFacts | None = None
        """What the caller's cursor rests on, as far as that is known."""
        self._read_of: Mapping[str, Any] | None = None
        """What it was read of."""
        self._present: tuple[TableFacts, TableFacts, dict[str, Any]] | None = None
        """The table's facts, the same with the last bound's guarantee, and this as JSON."""

    def rest_on(self, facts: Mapping[str, Any] | None) -> None:
        """See `ports.Source.rests_on`."""
        if self._present is not None and facts == self._present[2]:
            self.known = self._present[1]
        elif facts is not self._read_of:
            self.known = read_facts(facts, self._options.cursor_column, self._options.pk_columns)
        self._read_of = facts

    def facts(self, bound: Bound | None = None) -> dict[str, Any] | None:
        """See `ports.Source.facts`; `bound`: what is guaranteed now."""
        bare, present = self._table.facts, self._present
        if bare is None:
            return None
        had = None if present is None else present[1].guarantee
        has = had if bound is None else Guarantee(bound.kind, bound.reason or "", self._options.asks_for_bound)
        if present is None or present[0] is not bare or (had and had.kind) != (has and has.kind):
            whole = replace(bare, guarantee=has)
            present = self._present = bare, whole, whole.as_json()
        return present[2]

    def loses(self, bound: Bound) -> Exception | None:
        """The error if a bound guarantees less than the facts that the cursor rests on."""
        self.facts(bound)
        if self._present is None or self.known is None or self.known is self._present[1]:
            return None
        verdict = judge(replace(self._present[1], guarantee=self.known.guarantee), self._present[1], None)
        return verdict.error(self._options.what) if verdict.does is Does.WAIT else None

    def begin(
        self, known: Inspection, after: Cursor | None, held: Callable[[Inspection, Cursor], bool]
    ) -> tuple[Cursor | None, TieAgain | None]:
        """Where to begin behind a cursor.

        Args:
            held: whether a table that began again holds all rows back until a person acts, as long as its numbers are
                below the cursor, and remembers it.
        Raises: SourceUnavailable, until its facts are as they were; SourceError.
        """
        bare, present = self._table.facts, self._present
        is_present = present is not None and self.known is present[1] and bare is present[0]
        if after is not None and self.known is not None and bare is not None and not is_present:
            old, new = self.known, replace(bare, guarantee=self.known.guarantee)
            verdict = judge(old, new, after)
            if verdict.does is Does.LOOK:
                verdict = judge(old, new, after, same_row=after.tiebreaker is None or self._holds_row(after))
            if verdict.does is Does.REPEAT and verdict.cursor is not None:
                again = TieAgain(verdict.cursor, verdict.why, verdict.replaced)
                return self._table.settled(verdict.cursor, known), again
            if verdict.does is Does.REFUSE and held(known, after):
                return after, None
            if verdict.does is not Does.GO_ON:
                self._table.forget()
                raise verdict.error(self._options.what)
        self.refuse_changed(after, known)
        return after, None

    def refuse_changed(self, cursor: Cursor | None, known: Inspection) -> None:
        """Raises: SourceError, if the cursor's text cannot have come from the columns as they are."""
        o = self._options
        refuse_changed(cursor, known.cursor, known.keys, what=o.what, is_table=o.table is not None)

    def _holds_row(self, after: Cursor) -> bool:
        """True if the table holds the row at a cursor, at this cursor or a later one; or no row at or before it, so
        that none is passed. Whether it passes the filter does not matter. A table that cannot be compared with the
        cursor does not hold it; nor is a number that is the key itself any proof, unless maintenance makes a table
        another: in a table that began again, another row has it soon."""
        statements, database = self._table.statements_of((), filtered=False), self._table.database
        try:
            asked = [statements.of_key_from(after), statements.up_to(after)]
            found = [bool(database.run(*statements.any_of(one)).rows) for one in asked]
        except DBAPIError as error:
            if database.dialect.classify(error) not in _INCOMPARABLE:
                raise
            return False
        except (KeyError, ValueError):
            return False
        is_key = self._options.cursor_column in self._options.pk_columns
        proves = self._options.is_timed or not is_key or not database.dialect.keeps_objects
        return (found[0] and proves) or not found[1]
