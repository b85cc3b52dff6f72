"""SQL that is printed to be pasted does what it says, whatever the names in it hold."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from poller.databases.postgresql.site import literal
from poller.sources.user_sql import mysql_account
from tests.integration.bounds.tables import add, make, session, source
from tests.support.cases import each

HOSTILE = ["x'; DROP TABLE stamped; --", "x\\'; DROP TABLE stamped; --", "line\nfeed", "\u202egid\x1b[2J", "plain"]


@pytest.mark.guarantee("Hostile and broken input", "SQL that is printed to be run does what it shows")
@each("name", HOSTILE)
def test_what_ends_a_prepared_transaction_ends_it_and_nothing_else(postgres_db: str, name: str) -> None:
    make(postgres_db)
    add(postgres_db, 1)
    with session(postgres_db, "begin", "insert into stamped (id) values (2)") as writer:
        writer.execute(sa.text(f"prepare transaction {literal(name)}".replace(":", "\\:")))
    with source(postgres_db, bound="exact") as reader:
        printed = str(reader.bound().reason).partition("COMMIT PREPARED ")[2].partition("; or ROLLBACK PREPARED ")[0]
        assert printed.isprintable()
        for mode in ("off", "on"):
            with session(postgres_db, f"set standard_conforming_strings = {mode}") as administrator:
                kept = administrator.exec_driver_sql("select gid from pg_prepared_xacts where gid = " + printed).all()
                assert [tuple(row) for row in kept] == [(name,)]
        with session(postgres_db, f"rollback prepared {printed}"):
            pass
        assert [row["id"] for row in reader.page(None, 10).rows] == [1]


@pytest.mark.parametrize(
    ("user", "account"),
    [
        ("reader@%", "'reader'@'%'"),
        ("shop-reader@10.0.0.%", "'shop-reader'@'10.0.0.%'"),
        ("x'; DROP TABLE t; --@%", "`x'; DROP TABLE t; --`@`%`"),
        ("a`b\\@host", "`a``b\\`@`host`"),
    ],
)
def test_an_account_is_quoted_as_grant_takes_it(user: str, account: str) -> None:
    assert mysql_account(user) == account


def test_a_hostile_account_is_granted_what_is_printed(mariadb_db: str) -> None:
    name = mysql_account("x'; DROP \\`TABLE@localhost")
    with session(mariadb_db, f"CREATE USER {name}") as administrator:
        try:
            administrator.exec_driver_sql(f"GRANT PROCESS ON *.* TO {name}")
            (shown,) = administrator.exec_driver_sql(f"SHOW GRANTS FOR {name}").scalars()
            assert "PROCESS" in shown
        finally:
            administrator.exec_driver_sql(f"DROP USER {name}")
