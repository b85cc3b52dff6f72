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
from poller.sources.bounds import BoundContext, choose
from poller.sources.columns import Column, Family

NOON = datetime(2026, 7, 1, 12, 0, 0, tzinfo=UTC)
STAMP = Column("updated_at", Family.TIMESTAMP, sql_type="datetime2(7)", digits=7)
ROWVERSION = Column("rv", Family.BYTES, sql_type="binary(8)")


class Answer:
    """One row, or an error of the driver."""

    def __init__(self, row: Any) -> None:
        self._row = row

    def one(self) -> Any:
        return self._row

    def scalar(self) -> Any:
        return self._row

    scalar_one = scalar


class Pretended:
    """A connection that answers by a word in the statement, and keeps what it was sent."""

    def __init__(self, answers: Sequence[tuple[str, Any]]) -> None:
        self._answers = answers
        self.sent: list[str] = []

    def execute(self, statement: Any, parameters: Any = None) -> Answer:
        self.sent.append(" ".join(str(statement).split()))
        for word, answer in self._answers:
            if word in self.sent[-1]:
                if isinstance(answer, Exception):
                    raise answer
                return Answer(answer)
        raise AssertionError(f"not foreseen: {self.sent[-1]}")


def context(family: str, column: Column = STAMP, **changes: Any) -> BoundContext:
    facts: dict[str, Any] = {
        "family": family, "mariadb": False, "kind": "timestamp+pk", "column": column, "zone": UTC, "schema": "dbo",
        "table": "orders", "query": None, "margin": timedelta(seconds=1), "commit_delay": timedelta(seconds=5),
        "extra_delay": timedelta(0), "ignore_users": (), "clock": "CLOCK",
        "highest": "HIGHEST", "highest_below": "BELOW",
    }  # fmt: skip
    return BoundContext(**{**facts, **changes})


def sample(family: str, answers: Sequence[tuple[str, Any]], *, wanted: str = "auto", **changes: Any) -> Bound:
    connection: Any = Pretended(answers)
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
def test_sql_servers_clock_that_was_set_back_under_a_transaction_holds(ages: tuple[int | None, int | None]) -> None:
    bound = sample("mssql", [PRIMARY, opened(*ages, -3_585_000_000)])
    assert bound.value is None
    assert "set back" in str(bound.reason)


def test_sql_servers_row_versions_need_no_privilege() -> None:
    answers = [PRIMARY, ("MIN_ACTIVE_ROWVERSION", "00000000000007d1")]
    bound = sample("mssql", answers, column=ROWVERSION, kind="rowversion+pk")
    assert (bound.kind, bound.value) == ("exact", "00000000000007d1")


def test_sql_server_without_the_privilege_is_left_to_the_heuristic() -> None:
    refused = denied("('42000', 'VIEW SERVER STATE permission was denied (300)')")
    answers = [PRIMARY, ("dm_tran_active_transactions", refused), ("CLOCK", "2026-07-01T12:00:00.000000Z")]
    bound = sample("mssql", answers)
    assert bound.kind == "heuristic"
    assert "GRANT VIEW SERVER STATE" in str(bound.reason)


def test_sql_servers_secondary_is_refused() -> None:
    with pytest.raises(SourceError, match="secondary"):
        sample("mssql", [("Updateability", "READ_ONLY")])


@pytest.mark.parametrize("hint", ["WITH (NOLOCK)", "with (readpast)"])
def test_a_query_that_skips_what_is_locked_is_refused(hint: str) -> None:
    with pytest.raises(SourceError, match=r"(?i)nolock|readpast"):
        sample("mssql", [PRIMARY], query=f"SELECT * FROM orders {hint}", table=None)


def test_the_sample_of_sql_server_is_no_part_of_the_page() -> None:
    connection: Any = Pretended([PRIMARY, opened(None, None)])
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


def test_oracle_is_bound_by_its_oldest_transaction_or_call_and_the_views_coarseness() -> None:
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


def test_oracles_standby_is_refused() -> None:
    with pytest.raises(SourceError, match="standby"):
        sample("oracle", [("DATABASE_ROLE", "PHYSICAL STANDBY")])
