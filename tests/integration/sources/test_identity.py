"""The fingerprint: which database and table, whoever connects to it and however."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote_plus

import pytest
from sqlalchemy.engine import make_url

from poller.databases import identify
from poller.model.fingerprint import DatabaseIdentity, SourceDescription, differences
from poller.sources import SqlSource
from tests.support.cases import each

AZURE = (
    "DRIVER={ODBC Driver 18 for SQL Server};SERVER=tcp:Shop.Database.Windows.NET,1433;"
    "DATABASE=shop;UID=me;PWD={p;w=}}d};Encrypt=yes"
)


@each(
    ("url", "expected"),
    [
        ("postgresql+psycopg://me:pw@DB.example/shop", ("postgresql", "db.example", 5432, "shop")),
        ("postgres://DB.example:5433/shop?sslmode=require", ("postgresql", "db.example", 5433, "shop")),
        ("postgresql:///shop?host=/var/Run/pg", ("postgresql", "/var/Run/pg", 5432, "shop")),
        ("postgresql:///shop?host=a.example:5555", ("postgresql", "a.example", 5555, "shop")),
        ("postgresql:///shop", ("postgresql", "localhost", 5432, "shop")),
        ("mysql+pymysql://me@db/shop?charset=utf8mb4", ("mysql", "db", 3306, "shop")),
        ("mariadb+pymysql://db/shop", ("mysql", "db", 3306, "shop")),
        ("mssql+pyodbc://sa:pw@db/shop?driver=ODBC+Driver+18+for+SQL+Server", ("mssql", "db", 1433, "shop")),
        (f"mssql+pyodbc:///?odbc_connect={quote_plus(AZURE)}", ("mssql", "shop.database.windows.net", 1433, "shop")),
        (
            "mssql+pyodbc:///?odbc_connect=" + quote_plus("Server=SRV\\Inst;Initial Catalog=a b"),
            ("mssql", "srv\\inst", None, "a b"),
        ),
        ("sqlite://", ("sqlite", None, None, ":memory:")),
        ("sqlite:////data/./x/../shop.db", ("sqlite", None, None, "/data/shop.db")),
        ("sqlite:///file:/data/shop.db?mode=ro&uri=true", ("sqlite", None, None, "/data/shop.db")),
    ],
)
def test_a_url_is_reduced_to_its_database(url: str, expected: tuple[str, str | None, int | None, str]) -> None:
    found = identify(make_url(url.replace("postgres://", "postgresql://")))
    assert (found.dialect, found.host, found.port, found.database) == expected


def test_a_relative_sqlite_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert identify(make_url("sqlite:///shop.db")).database == str(tmp_path / "shop.db")


def _source(url: str, **keys: object) -> SqlSource:
    options: dict[str, object] = {"table": "orders", "cursor_column": "updated_at", "pk_columns": ["id"]}
    return SqlSource(url, **(options | keys))  # type: ignore[arg-type]


def test_a_new_password_user_or_option_changes_nothing() -> None:
    one = _source("postgresql+psycopg://a:1@DB.example/shop", query_timeout="3s", columns=["id"])
    other = _source("postgresql://b:2@db.example:5432/shop?application_name=x", settle="9s", bound="none")
    assert one.describe().fingerprint() == other.describe().fingerprint()


@each(
    ("keys", "field"),
    [
        ({"table": "order"}, "table"),
        ({"schema": "public"}, "schema"),
        ({"filter": "id > 0"}, "filter"),
        ({"pk_columns": ["a", "id"]}, "pk_columns"),
        ({"cursor_column": "created_at"}, "cursor_column"),
        ({"cursor_kind": "integer+pk"}, "cursor_kind"),
    ],
)
def test_a_new_meaning_of_the_checkpoint_is_a_new_fingerprint(keys: dict[str, object], field: str) -> None:
    one, other = _source("postgresql://h/d").describe(), _source("postgresql://h/d", **keys).describe()
    assert one.fingerprint() != other.fingerprint()
    assert [d.field for d in differences(one.as_json(), other)] == [field]


def test_the_test_vector() -> None:
    """The vector that the documentation quotes."""
    described = _source(
        "postgresql+psycopg://app:secret@DB.Example.com/shop?sslmode=require",
        schema="public",
        filter="status <> 'draft'",
    ).describe()
    assert described == SourceDescription(
        database=DatabaseIdentity(dialect="postgresql", host="db.example.com", port=5432, database="shop"),
        schema_name="public",
        table="orders",
        query=None,
        cursor_column="updated_at",
        cursor_kind="timestamp+pk",
        pk_columns=("id",),
        filter="status <> 'draft'",
    )
    assert described.canonical() == (
        '{"cursor_column":"updated_at","cursor_kind":"timestamp+pk","database":{"database":"shop","dialect":"postgresql",'
        '"host":"db.example.com","port":5432},"filter":"status <> \'draft\'","pk_columns":["id"],"query":null,'
        '"schema":"public","table":"orders"}'
    )
    assert described.fingerprint() == "sha256:313084fe7e9e6e04fbd5db032633822ebd8ecfdea3876801342c8ec9f44fd830"
