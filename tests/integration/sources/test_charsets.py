"""A text of the database reaches us whole, whatever character set the URL, a file or a command asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from poller.databases import urls
from poller.stores import SqlStore
from tests.integration.sources.tables import closing, drain, execute, orders
from tests.support.cases import each

KEYS = ["a", "b?", "b😀1", "b😀2", "c", "é", "日本"]
STAMP = "'2026-01-01 00\\:00\\:00'"


def _insert(url: str) -> None:
    execute(url, f"insert into orders values (:id, {STAMP})", rows=[{"id": key} for key in KEYS])


@pytest.mark.guarantee(
    "Rows that commit late",
    "A text key leads back to its row, whatever character set the URL names",
)
@each(
    "options",
    [
        "charset=utf8",
        "charset=latin1",
        "charset=utf8mb3&collation=utf8mb3_general_ci",
        "use_unicode=0&charset=latin1",
        "init_command=SET%20NAMES%20latin1",
        "read_default_file={file}",
    ],
)
def test_mysql_is_read_in_utf8mb4(family_db: str, options: str, tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    file.write_text("[client]\ndefault-character-set = latin1\n")
    execute(
        family_db,
        "create table orders (id varchar(20) character set utf8mb4 collate utf8mb4_bin primary key,"
        " updated_at datetime(6) not null)",
    )
    _insert(family_db)
    with closing(orders(f"{family_db.partition('?')[0]}?{options.format(file=file)}")) as source:
        assert [row["id"] for row in drain(source, 1)] == KEYS


@each("encoding", ["latin1", "sql_ascii"])
def test_postgresql_is_read_in_utf8(postgres_db: str, encoding: str) -> None:
    execute(
        postgres_db,
        'create table orders (id text collate "C" primary key, updated_at timestamptz not null)',
    )
    _insert(postgres_db)
    with closing(orders(f"{postgres_db}?client_encoding={encoding}")) as source:
        assert [row["id"] for row in drain(source, 1)] == KEYS


@pytest.mark.parametrize("method", ["set_character_set", "set_charset_collation"])
def test_other_drivers_of_mysql_are_asked_in_their_own_way(method: str) -> None:
    """A pretended connection: mysqlclient and MySQL Connector/Python are not installed here."""
    asked: list[str] = []
    connection = type("Connection", (), {method: lambda self, name: asked.append(name)})()
    urls.use_utf8mb4(connection)
    assert asked == ["utf8mb4"]


@each("charset", ["latin1", "utf8"])
def test_a_state_document_keeps_every_character(mariadb_db: str, charset: str) -> None:
    body = '{"key": "b😀1 日本"}'.encode()
    store = SqlStore(f"{mariadb_db.partition('?')[0]}?charset={charset}")
    try:
        store.write("state/shop/orders.json", body, if_tag=None)
        found = store.read("state/shop/orders.json")
    finally:
        store.close()
    assert getattr(found, "body", None) == body
