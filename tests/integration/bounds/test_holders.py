"""Who holds a bound is named, also by a process that knows little; pollers of one server do not blind each other."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

import pytest
import sqlalchemy as sa

from poller.sources import sampler as followed
from poller.sources.mysql import bound as mysql_bound
from poller.sources.mysql.look import Sighting, look
from tests.integration.bounds.tables import add, freshly, ids, make, session, source
from tests.support.cases import each


@each("bound", ["observed", "observed-strict"])
def test_who_was_there_before_a_cold_process_is_named(
    postgres_db: str, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed, "SHOWS_HOLDER_AFTER", 0.0)
    make(postgres_db)
    with session(postgres_db, "begin", "insert into stamped (id) values (1)") as forgotten:
        pid = forgotten.exec_driver_sql("select pg_backend_pid()").scalar_one()
        user = forgotten.exec_driver_sql("select current_user").scalar_one()
        with source(postgres_db, bound=bound) as reader:
            first = reader.page(None, 10).bound
            held = str(reader.page(None, 10).bound.held_by)
            assert first.value is None
            assert held.startswith(f"pid {pid} of {user}, in a transaction since before 2")
            forgotten.exec_driver_sql("commit")
            add(postgres_db, 2)
            assert ids(reader) == [1, 2]


def test_who_was_there_before_a_cold_process_is_named_on_mariadb(
    family_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed, "SHOWS_HOLDER_AFTER", 0.0)
    make(family_db)
    with session(family_db, "start transaction", "insert into stamped (id) values (1)") as forgotten:
        number = forgotten.exec_driver_sql("select connection_id()").scalar_one()
        with source(family_db) as reader:
            held = str(freshly(reader).page(None, 10).bound.held_by)
            assert held.startswith(f"connection {number} of ")
            assert ", open since before 2" in held
            forgotten.exec_driver_sql("commit")
            assert ids(freshly(reader)) == [1]


def test_of_several_prepared_transactions_the_oldest_is_named(postgres_db: str) -> None:
    make(postgres_db)
    for number, name in ((1, "zz first"), (2, "aa second")):
        with session(
            postgres_db, "begin", f"insert into stamped (id) values ({number})", f"prepare transaction '{name}'"
        ):
            pass
    with session(postgres_db) as other, source(postgres_db) as reader:
        try:
            since = other.exec_driver_sql(
                "select to_char(prepared, 'YYYY-MM-DD HH24:MI:SS') from pg_prepared_xacts where gid = 'zz first'"
            ).scalar_one()
            held = str(reader.page(None, 10).bound.held_by)
        finally:
            for name in ("zz first", "aa second"):
                other.exec_driver_sql(f"rollback prepared '{name}'")
    assert held.startswith("prepared transaction 'zz first' of ")
    assert held.endswith("and 1 more")
    assert f"since {since[:10]}" in held


def test_a_stale_look_is_taken_again_at_once(family_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """innodb_trx does not refresh while somebody reads it all the time, as another poller may at the same second."""
    make(family_db)
    add(family_db, 1)
    reading, done, seen = threading.Event(), threading.Event(), []

    def noted(connection: sa.Connection, statement: sa.TextClause, own: Collection[int]) -> Sighting:
        found = look(connection, statement, own)
        seen.append(found.fresh)
        if not found.fresh:
            done.set()  # whoever was reading reads no more
        return found

    def read_all_the_time() -> None:
        with session(family_db) as other:
            while not done.wait(0.01):
                other.exec_driver_sql("select count(*) from information_schema.innodb_trx")
                reading.set()

    with source(family_db) as reader, session(family_db, "start transaction") as writer:
        assert ids(freshly(reader)) == [1]
        writer.exec_driver_sql("insert into stamped (id) values (2)")
        monkeypatch.setattr(mysql_bound, "look", noted)
        spoiler = threading.Thread(target=read_all_the_time)
        spoiler.start()
        try:
            assert reading.wait(30)
            bound: Any = freshly(reader).bound()
        finally:
            done.set()
            spoiler.join()

    assert seen[0] is False
    assert seen[-1] is True
    assert "innodb_trx" not in str(bound.held_by)
