"""What a server that cannot work says is an outage: no row of the relay `sql` is blamed for it."""

from __future__ import annotations

import psycopg
import pymysql.err
import pytest
from sqlalchemy.exc import OperationalError

from poller.relays.sql_errors import Fault, fault_of

OUTAGES = (1026, 1030, 1047, 1180, 1194, 1195, 1223)
"""A file or disk, a cluster's node that is not ready, a commit, a crashed table, a read lock."""


@pytest.mark.parametrize(
    ("number", "fault"), [*((number, "outage") for number in OUTAGES), (1213, "conflict"), (1644, "row")], ids=str
)
def test_a_server_that_cannot_work_is_no_rows_fault(number: int, fault: Fault) -> None:
    failed = OperationalError("INSERT", {}, pymysql.err.OperationalError(number, "it says so"))

    assert fault_of(failed) == fault


@pytest.mark.parametrize(
    ("number", "text", "fault"),
    [
        (1969, "Query execution was interrupted (max_statement_time exceeded)", "slow"),
        (3024, "Query execution was interrupted, maximum statement execution time exceeded", "slow"),
        (2013, "Lost connection to MySQL server during query (timed out)", "slow"),
        (2013, "Lost connection to MySQL server during query", "outage"),
        (1205, "Lock wait timeout exceeded; try restarting transaction", "conflict"),
        (1317, "Query execution was interrupted", "outage"),
    ],
)
def test_a_statement_that_takes_too_long_is_no_outage(number: int, text: str, fault: Fault) -> None:
    failed = OperationalError("INSERT", {}, pymysql.err.OperationalError(number, text))
    failed.connection_invalidated = number == 2013

    assert fault_of(failed) == fault


@pytest.mark.parametrize(
    "error",
    [
        pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query (timed out)"),
        psycopg.errors.ConnectionTimeout("connection timeout expired"),
    ],
    ids=["pymysql", "psycopg"],
)
def test_a_server_that_accepts_and_says_nothing_is_an_outage(error: Exception) -> None:
    """No statement was sent, so none took too long."""
    assert fault_of(OperationalError(None, None, error)) == "outage"
