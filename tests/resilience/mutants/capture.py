"""Mutants of the order and the bound of change tables; each dies of a test of its own."""

from __future__ import annotations

from tests.resilience.mutants.mutant import Mutant, dying_of

_BOUND = "integration/capture/test_bound.py::"
_LEFT_OUT = (
    "integration/capture/test_snapshot.py::test_a_row_of_an_open_transaction_is_left_out_of_its_chunk[postgresql]"
)
_ORDER = "return found.where(where).order_by(*self._order).limit(limit)"


def _by(name: str, column: str, test: str) -> Mutant:
    first = f"*([sa.text('{column}')] if self._relation.chosen and of is not None else [])"
    new = _ORDER.replace("*self._order", f"{first}, *self._order")
    return dying_of(name, "sources/page.py", _ORDER, new, f"{_BOUND}{test}")


CAPTURE = (
    _by("changes are ordered by their transactions", "xid", "test_one_key_is_in_the_order_of_its_writes"),
    _by("changes are ordered by time", "at", "test_a_statement_that_waited_is_not_put_before_others"),
    dying_of(
        "a snapshot's xmax is taken for the next number",
        "sources/postgresql/bound.py",
        "self._marks.append((value, following))",
        "self._marks.append((value, int(row.xmax)))",
        f"{_BOUND}test_a_transaction_above_the_last_one_that_ended_counts",
    ),
    dying_of(
        "changes of open transactions are passed",
        "sources/postgresql/bound.py",
        "if above <= xmin]",
        "if above <= following]",
        f"{_BOUND}test_a_change_that_is_not_committed_holds_later_ones",
    ),
    dying_of(
        "a chunk counts changes from the counter on, not from the bound",
        "sources/snapshots.py",
        "return _Chunk(snapshot.after, keys, rows, last + 1, high, ends, here)",
        "return _Chunk(snapshot.after, keys, rows, high, high, ends, here)",
        _LEFT_OUT,
    ),
    dying_of(
        "rows that a change names are not left out of a chunk",
        "sources/snapshots.py",
        "named.update(head.key for head in heads if head.key in keys)",
        "named.update(())",
        _LEFT_OUT,
    ),
)
