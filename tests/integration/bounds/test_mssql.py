"""SQL Server, of which there is none here: the statements that are sent, and what is made of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from poller.errors import SourceError
from poller.ports import Bound
from poller.sources.columns import CursorColumn, Family
from poller.sources.current_bound import choose
from poller.sources.database import dialect_for
from tests.integration.bounds.pretended import Pretended, Process, asked

ROWVERSION = CursorColumn("rv", Family.BYTES, sql_type="binary(8)")
PRIMARY = ("Updateability", "READ_WRITE")
CLOCK = ("CLOCK", "2026-07-01T12:00:00.000000Z")


def sample(answers: Sequence[tuple[str, Any]], **changes: Any) -> Bound:
    connection: Any = Pretended(answers)
    asks = asked(**changes)
    sampler = choose(dialect_for("mssql"), asks, connection)
    return Process(sampler.rule, asks.options).see(sampler.take(connection))


def test_sql_servers_row_versions_need_no_privilege() -> None:
    row = SimpleNamespace(least="00000000000007d1", used="00000000000007ff")
    answers = [PRIMARY, ("sys.tables", 1), ("MIN_ACTIVE_ROWVERSION", row)]
    bound = sample(answers, column=ROWVERSION, cursor_kind="rowversion+pk")
    assert (bound.kind, bound.value, bound.next) == ("exact", "00000000000007d1", "0000000000000800")


def test_sql_servers_times_are_read_behind_a_delay() -> None:
    bound = sample([PRIMARY, CLOCK])
    assert bound.kind == "heuristic"
    assert "rowversion" in str(bound.reason)


@pytest.mark.parametrize("changes", [{}, {"table": None, "schema_name": None, "query": "select * from far.shop.dbo.t"}])
def test_sql_servers_rows_of_a_view_or_query_are_a_guess(changes: dict[str, Any]) -> None:
    answers = [PRIMARY, ("sys.tables", 0), CLOCK, ("HIGHEST", "00000000000007d1")]
    bound = sample(answers, column=ROWVERSION, cursor_kind="rowversion+pk", **changes)
    assert bound.kind == "heuristic"
    assert "name the table" in str(bound.reason)


def test_sql_servers_secondary_is_refused() -> None:
    with pytest.raises(SourceError, match="secondary"):
        sample([("Updateability", "READ_ONLY")])


@pytest.mark.parametrize("hint", ["WITH (NOLOCK)", "with (readpast)"])
def test_a_query_that_skips_what_is_locked_is_refused(hint: str) -> None:
    with pytest.raises(SourceError, match=r"(?i)nolock|readpast"):
        sample([PRIMARY], query=f"SELECT * FROM orders {hint}", table=None, schema_name=None)


def test_a_table_is_looked_up_by_its_name_whatever_that_holds() -> None:
    question = dialect_for("mssql").asks_where(asked(table="a]b", schema_name="dbo").options)
    assert question is not None
    assert question.params == {"name": "[dbo].[a]]b]"}
