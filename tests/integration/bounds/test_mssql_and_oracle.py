"""SQL Server and Oracle, of which there is none here: the statements that are sent, and what is made of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.exc import ProgrammingError

from poller.errors import SourceError
from poller.ports import Bound
from poller.sources.bounds import choose
from poller.sources.columns import Column, Family
from tests.integration.bounds.pretended import Pretended, context

NOON = datetime(2026, 7, 1, 12, 0, 0, tzinfo=UTC)
ROWVERSION = Column("rv", Family.BYTES, sql_type="binary(8)")
HERE = (
    ("OBJECT_DEFINITION", SimpleNamespace(definition=None, base=None, outside=0)),
    ("all_synonyms", SimpleNamespace(synonym=None, behind=None, outside=None)),
)
"""The rows are of this server's own tables."""


def sample(family: str, answers: Sequence[tuple[str, Any]], *, wanted: str = "auto", **changes: Any) -> Bound:
    connection: Any = Pretended([*answers, *HERE])
    return choose(wanted, context(family, **changes), connection).sample(connection)


def denied(text: str) -> ProgrammingError:
    return ProgrammingError("SELECT", {}, Exception(text))


PRIMARY = ("Updateability", "READ_WRITE")


def opened(transaction: int | None, request: int | None, least: int | None = None) -> tuple[str, Any]:
    row = SimpleNamespace(
        clock=NOON.replace(tzinfo=None), transaction_age=transaction, request_age=request, least_age=least
    )
    return ("dm_tran_active_transactions", row)


@pytest.mark.parametrize(
    ("transaction", "request_age", "expected"),
    [
        (None, None, "2026-07-01T11:59:58.9999990"),
        (3_000_000, None, "2026-07-01T11:59:55.9959990"),
        (None, 500_000, "2026-07-01T11:59:58.4959990"),
        (1_000_000, 3_000_000, "2026-07-01T11:59:55.9959990"),
    ],
)
def test_sql_server_is_bound_by_its_oldest_transaction_or_request(
    transaction: int | None, request_age: int | None, expected: str
) -> None:
    bound = sample("mssql", [PRIMARY, opened(transaction, request_age)])
    assert bound.kind == "exact"
    assert bound.value == expected
    assert (bound.held_by is not None) == (max(transaction or 0, request_age or 0) > 2_000_000)


@pytest.mark.parametrize("ages", [(-3_585_000_000, None), (5_000_000, None), (None, -20_000)])
def test_sql_server_holds_when_its_clock_was_set_back(ages: tuple[int | None, int | None]) -> None:
    bound = sample("mssql", [PRIMARY, opened(*ages, -3_585_000_000)])
    assert bound.value is None
    assert "set back" in str(bound.reason)


def test_sql_servers_row_versions_need_no_privilege() -> None:
    row = SimpleNamespace(least="00000000000007d1", used="00000000000007ff")
    answers = [PRIMARY, ("MIN_ACTIVE_ROWVERSION", row)]
    bound = sample("mssql", answers, column=ROWVERSION, kind="rowversion+pk")
    assert (bound.kind, bound.value, bound.next) == ("exact", "00000000000007d1", "0000000000000800")


def test_sql_server_without_the_privilege_is_left_to_the_heuristic() -> None:
    refused = denied("('42000', 'VIEW SERVER STATE permission was denied (300)')")
    answers = [PRIMARY, ("dm_tran_active_transactions", refused), ("CLOCK", "2026-07-01T12:00:00.000000Z")]
    bound = sample("mssql", answers)
    assert bound.kind == "heuristic"
    assert "GRANT VIEW SERVER STATE" in str(bound.reason)


@pytest.mark.parametrize(("step", "kind"), [(1, "exact"), (50, "heuristic")])
def test_sql_servers_identity_is_exact_with_a_step_of_1(step: int, kind: str) -> None:
    answers = [PRIMARY, opened(None, None), ("IsIdentity", 1), ("IDENT_INCR", step), ("IDENT_CURRENT", 7)]
    answers += [("CLOCK", "2026-07-01T12:00:00.000000Z"), ("HIGHEST", "7")]
    bound = sample("mssql", answers, column=Column("id", Family.INTEGER), kind="integer+pk")
    assert bound.kind == kind
    assert (f"INCREMENT of {step}" in str(bound.reason)) == (kind == "heuristic")


def test_sql_servers_secondary_is_refused() -> None:
    with pytest.raises(SourceError, match="secondary"):
        sample("mssql", [("Updateability", "READ_ONLY")])


@pytest.mark.parametrize("hint", ["WITH (NOLOCK)", "with (readpast)"])
def test_a_query_that_skips_what_is_locked_is_refused(hint: str) -> None:
    with pytest.raises(SourceError, match=r"(?i)nolock|readpast"):
        sample("mssql", [PRIMARY], query=f"SELECT * FROM orders {hint}", table=None)


CLOCK = ("CLOCK", "2026-07-01T12:00:00.000000Z")
FAR = SimpleNamespace(definition="CREATE VIEW v AS SELECT * FROM [far].[shop].[dbo].[t]", base=None, outside=0)
NAMED = SimpleNamespace(definition=None, base="[far].[shop].[dbo].[t]", outside=0)


@pytest.mark.parametrize(
    ("changes", "about", "expected"),
    [
        ({"query": "select * from far.shop.dbo.t", "table": None}, None, "linked server"),
        ({"query": "select * from openquery(far, 'select 1')", "table": None}, None, "OPENQUERY"),
        ({"query": "select * from openrowset(bulk 'x', single_clob) t", "table": None}, None, "OPENROWSET"),
        ({"query": "select * from dbo.made(1)", "table": None}, None, "function dbo.made"),
        ({"query": "select 1 id, sysutcdatetime() at", "table": None}, None, "no table"),
        ({}, FAR, "linked server"),
        ({}, NAMED, "linked server"),
        ({}, SimpleNamespace(definition=None, base=None, outside=1), "external table"),
    ],
)
def test_sql_servers_rows_from_elsewhere_are_a_guess(changes: dict[str, Any], about: Any, expected: str) -> None:
    answers = [PRIMARY, opened(None, None), CLOCK, *([("OBJECT_DEFINITION", about)] if about else [])]
    bound = sample("mssql", answers, **changes)
    assert bound.kind == "heuristic"
    assert expected in str(bound.reason)


def test_sql_servers_rows_of_its_own_stay_exact() -> None:
    for query in (
        "with t as (select * from dbo.o) select * from t cross apply openjson(t.x) j",
        "select * from db.s.t",
    ):
        assert sample("mssql", [PRIMARY, opened(None, None)], query=query, table=None).kind == "exact"


def test_a_name_of_with_is_not_looked_up_at_sql_server() -> None:
    connection: Any = Pretended([PRIMARY, opened(None, None), ("OBJECT_DEFINITION", NAMED)])
    query = "with far as (select 1 as id, sysutcdatetime() as updated_at) select * from far"
    assert choose("auto", context("mssql", query=query, table=None), connection).kind == "heuristic"
    assert not any("OBJECT_DEFINITION" in sent for sent in connection.sent)


def test_the_sample_of_sql_server_is_no_part_of_the_page() -> None:
    connection: Any = Pretended([PRIMARY, opened(None, None), *HERE])
    choose("auto", context("mssql"), connection).sample(connection)
    assert all("orders" not in sent for sent in connection.sent)
    assert "transaction_type IN (1, 4)" in connection.sent[-1]
    assert "@@SPID" in connection.sent[-1]


def oracle(transaction: float | None, call: float | None, least: float | None = None) -> tuple[str, Any]:
    row = SimpleNamespace(
        clock="2026-07-01T12:00:00.000000+00:00", transaction_age=transaction, call_age=call, least_age=least
    )
    return ("gv$transaction", row)


OPEN_ROLE = ("DATABASE_ROLE", "PRIMARY")


def test_oracle_is_bound_by_its_oldest_transaction_or_call() -> None:
    bound = sample("oracle", [OPEN_ROLE, oracle(4.0, 9.0), ("dba_2pc_pending", 0)])
    assert bound.kind == "exact"
    assert bound.at == NOON - timedelta(seconds=9 + 2 + 1)
    assert bound.held_by is not None


def test_oracles_clock_that_was_set_back_under_a_transaction_holds() -> None:
    bound = sample("oracle", [OPEN_ROLE, oracle(60.0, None, -3590.0), ("dba_2pc_pending", 0)])
    assert bound.value is None
    assert "set back" in str(bound.reason)


def test_oracles_transactions_in_doubt_hold() -> None:
    bound = sample("oracle", [OPEN_ROLE, oracle(None, None), ("dba_2pc_pending", 2)])
    assert bound.value is None
    assert "in doubt" in str(bound.held_by)


def test_oracle_without_its_views_is_left_to_the_heuristic() -> None:
    answers = [
        OPEN_ROLE,
        ("gv$transaction", denied("ORA-00942: table or view does not exist")),
        ("CLOCK", "2026-07-01T12:00:00.000000+00:00"),
    ]
    bound = sample("oracle", answers)
    assert bound.kind == "heuristic"
    assert "SELECT_CATALOG_ROLE" in str(bound.reason)


@pytest.mark.parametrize(
    ("query", "about", "expected"),
    [
        ("select * from t@far", (None, None, None), "t@far"),
        ("select * from table(made(1))", (None, None, None), "table("),
        (None, ("FAR", None, None), "database link FAR"),
        (None, (None, "FAR", None), "database link FAR"),
        (None, (None, None, "ORACLE_LOADER"), "external table"),
        ("select 'a@b' x from t", (None, None, None), ""),
        ("select x from t -- ask a@b", (None, None, None), ""),
    ],
)
def test_oracles_rows_from_elsewhere_are_a_guess(query: str | None, about: tuple[Any, ...], expected: str) -> None:
    found = SimpleNamespace(synonym=about[0], behind=about[1], outside=about[2])
    clock = ("CLOCK", "2026-07-01T12:00:00.000000+00:00")
    answers = [OPEN_ROLE, ("all_synonyms", found), oracle(None, None), ("dba_2pc_pending", 0), clock]
    bound = sample("oracle", answers, query=query, table=None if query else "orders")
    assert bound.kind == ("heuristic" if expected else "exact")
    assert expected in str(bound.reason)


def test_another_schema_of_oracle_may_use_the_tables_name() -> None:
    nowhere = SimpleNamespace(synonym=None, behind=None, outside=None)
    answers = [OPEN_ROLE, ("all_synonyms", nowhere), oracle(None, None), ("dba_2pc_pending", 0)]
    connection: Any = Pretended(answers)
    choose("auto", context("oracle", schema=None), connection)
    (asked,) = [sent for sent in connection.sent if "all_synonyms" in sent]
    assert "UPPER(owner) IN (h.home, 'PUBLIC')" in asked
    assert asked.count("UPPER(owner) = h.home") == 2
    assert "NVL(:schema, SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA'))" in asked


def test_oracles_standby_is_refused() -> None:
    with pytest.raises(SourceError, match="standby"):
        sample("oracle", [("DATABASE_ROLE", "PHYSICAL STANDBY")])
