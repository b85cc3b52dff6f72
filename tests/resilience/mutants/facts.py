"""Mutants of what a cursor rests on; each dies of a test of its own."""

from __future__ import annotations

from tests.resilience.mutants.mutant import dying_of

FACTS = (
    dying_of(
        "the document's facts are never compared",
        "tick/reader.py",
        "source.rests_on(self._facts)",
        "source.rests_on(None)",
        "integration/sources/test_facts.py::test_two_tables_swapped_by_name_stop_it[sqlite]",
    ),
    dying_of(
        "an acquire writes other facts",
        "tick/tick.py",
        "    if state.facts is not None or page.facts is None:\n",
        "    if page.facts is None:\n",
        "integration/sources/test_facts.py::test_other_facts_wait_for_the_write_that_moves_the_checkpoint",
    ),
    dying_of(
        "a tie goes on after its key got another collation",
        "sources/facts.py",
        "    if _sorts_otherwise(old, new):\n        return f",
        "    if False:\n        return f",
        "unit/sources/test_facts.py::test_a_cursor_goes_on_only_where_its_keys_sort_as_they_did",
    ),
    dying_of(
        "lanes are kept when a tie begins again",
        "model/transitions.py",
        'update={"window": None, "lanes": None})',
        'update={"window": None})',
        "unit/model/test_transitions.py::test_a_tie_that_begins_again_forgets_only_what_was_kept_of_it",
    ),
    dying_of(
        "the guarantee may get worse",
        "sources/facts.py",
        "_RANKS.get(has.kind, 9) >= _RANKS.get(had.kind, 0)",
        "True",
        "unit/sources/test_facts.py::test_a_guarantee_never_gets_worse_without_a_word",
    ),
    dying_of(
        "what a page shows is not compared",
        "sources/table.py",
        "if self.known is not None and shown not in self._agreed:",
        "if False:",
        "integration/sources/test_changes.py::test_sqlite_a_table_made_with_another_type_is_looked_at_again",
    ),
    dying_of(
        "what no page shows is not asked",
        "sources/table.py",
        "if not rows or tuple(rows[0]) != watch.found:",
        "if False:",
        "integration/sources/test_facts.py::test_so_does_one_of_a_view_or_query",
    ),
)
