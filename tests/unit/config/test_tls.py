"""What `check` says of connections that leave this machine: by the URL, without a connection.

The drivers' own rules were read, and are not run here: no server of the tests has a certificate. What PyMySQL makes of
SQLAlchemy's options is asked of PyMySQL itself.
"""

from __future__ import annotations

import ssl
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from poller import tls
from tests.support.cases import each

VERIFIED = [
    "postgresql://db.example/shop?sslmode=verify-full",
    "postgresql://db.example/shop?sslrootcert=system",
    "mysql+pymysql://db.example/shop?ssl_ca=/ca.pem",
    "mariadb://db.example/shop?ssl_capath=/certs",
    "mysql+mysqldb://db.example/shop?ssl_mode=VERIFY_IDENTITY&ssl_ca=/ca.pem",
    "mysql+mysqlconnector://db.example/shop?ssl_ca=/ca.pem&ssl_verify_identity=true",
    "mysql+mariadbconnector://db.example/shop?ssl_verify_cert=true",
    "mssql+pyodbc://db.example/shop?driver=ODBC+Driver+18+for+SQL+Server",
    "mssql+pyodbc://db.example/shop?driver=ODBC+Driver+17+for+SQL+Server&Encrypt=yes",
    "mssql+pyodbc://?odbc_connect=Driver%3D%7BODBC+Driver+18+for+SQL+Server%7D%3BServer%3Dtcp%3Adb.example%2C1433",
]
UNVERIFIED = [
    ("postgresql://db.example/shop", "sslmode is prefer"),
    ("postgresql+psycopg2://db.example/shop?sslmode=require", "sslmode is require"),
    ("postgresql://db.example/shop?sslmode=verify-ca", "sslmode is verify-ca"),
    ("postgresql://localhost/shop?host=db.example:5432", "db.example is not"),
    ("postgresql:///shop?host=/run/a&hostaddr=10.0.0.7", "10.0.0.7"),
    ("postgresql:///shop?service=shop", "service file"),
    ("mysql+pymysql://db.example/shop", "no certificate authority"),
    ("mysql+pymysql://db.example/shop?ssl_ca=/ca.pem&ssl_check_hostname=false", "no certificate authority"),
    ("mysql+mysqldb://db.example/shop?ssl_ca=/ca.pem", "no certificate authority"),
    ("mysql+pymysql:///shop?read_default_file=/etc/shop.cnf", "option file"),
    ("mssql+pyodbc://db.example/shop?driver=ODBC+Driver+17+for+SQL+Server", "Encrypt is off"),
    ("mssql+pyodbc://db.example/shop?driver=ODBC+Driver+18+for+SQL+Server&TrustServerCertificate=yes", "TrustServer"),
    ("mssql+pyodbc://?odbc_connect=Driver%3DX%3BServer%3Ddb.example%3BEncrypt%3Dno", "db.example"),
    ("mssql+pymssql://db.example/shop", "pymssql"),
]
HERE = [
    "postgresql:///shop",
    "postgresql://127.0.0.1/shop",
    "postgresql://[::1]/shop",
    "postgresql:///shop?host=/run/postgresql",
    "mysql://localhost/shop",
    "mysql:///shop?unix_socket=/run/mysqld.sock",
    "mssql+pyodbc://localhost\\SQLEXPRESS/shop?driver=ODBC+Driver+17+for+SQL+Server",
]


def only(url: str, **environ: str) -> Any:
    (finding,) = tls.of_database(make_url(url), environ)
    return finding


@each("url", [*VERIFIED, *HERE])
def test_a_verified_or_local_connection_is_well(url: str) -> None:
    assert only(url).severity == "ok"
    assert ("does not leave" in only(url).message) is (url in HERE)


@pytest.mark.guarantee("Who may see and do what", "`check` warns of a connection that leaves the machine unverified")
@each(("url", "expected"), UNVERIFIED)
def test_an_unverified_connection_elsewhere_is_warned_of(url: str, expected: str) -> None:
    found = only(url.replace("://", "://app:geheim-7@", 1) if "odbc_connect" not in url and ":///" not in url else url)
    assert found.severity == "warn"
    assert expected in found.message
    assert found.fix
    assert "geheim-7" not in found.message + found.fix


def test_what_libpq_takes_from_the_environment_counts() -> None:
    assert only("postgresql://db.example/shop", PGSSLMODE="verify-full").severity == "ok"
    assert only("postgresql:///shop", PGHOST="db.example").severity == "warn"


def test_a_file_and_an_unknown_database_are_not_spoken_of() -> None:
    assert tls.of_database(make_url("sqlite:///shop.db"), {}) == []
    assert tls.of_database(make_url("duckdb:///shop.db"), {}) == []


@pytest.mark.parametrize(
    "options",
    [
        *("ssl_capath=/", "ssl_capath=/&ssl_check_hostname=false", "charset=utf8mb4", "ssl_capath=/&ssl_disabled=true"),
        "ssl_capath=/&ssl_verify_cert=true&ssl_verify_identity=true",
    ],
)
def test_pymysql_verifies_where_it_is_said_to(options: str) -> None:
    import pymysql

    url = make_url(f"mysql+pymysql://db.example/shop?{options}")
    _, keywords = create_engine(url).dialect.create_connect_args(url)
    connection = pymysql.Connection(**{"defer_connect": True, **keywords})
    made: ssl.SSLContext | None = getattr(connection, "ctx", None)
    verifies = made is not None and made.verify_mode is ssl.CERT_REQUIRED and made.check_hostname
    assert verifies is (only(str(url)).severity == "ok")


def test_plain_http_is_warned_of_but_on_this_machine() -> None:
    assert [one.severity for one in tls.of_address("https://shop.blob.core.windows.net/db-state")] == ["ok"]
    assert [one.severity for one in tls.of_address("http://127.0.0.1:10000/devstoreaccount1/db-state")] == ["ok"]
    (found,) = tls.of_address("http://azurite:10000/devstoreaccount1/db-state?sig=geheim-7")
    assert found.severity == "warn"
    assert "azurite" in found.message
    assert "geheim-7" not in found.message + found.fix
