"""Where an Entra token may be sent, for which audience, and how SQL Server's driver gets it (a pretended driver)."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.dialects.mssql.pyodbc import MSDialect_pyodbc

from poller.databases.tokens import ACCESS_TOKEN
from poller.errors import ConfigError, SourceUnavailable
from poller.sources import SqlSource
from poller.stores import SqlStore
from tests.support.certificates import certificates
from tests.support.entra import Issuer

CLIENT = "11111111-2222-3333-4444-555555555555"
AZURE = "shop.postgres.database.azure.com"
POSTGRES = f"postgresql+psycopg://poller@{AZURE}/shop?sslmode=verify-full&sslrootcert=system"
MYSQL = "mysql+pymysql://poller@shop.mysql.database.azure.com/shop?ssl_ca=/ca.pem"
ODBC = "driver=ODBC+Driver+18+for+SQL+Server"
MSSQL = f"mssql+pyodbc://shop.database.windows.net/shop?{ODBC}"


class Odbc:
    """In the place of pyodbc, which needs a library of the system: it notes how it is called, and refuses."""

    version, paramstyle, threadsafety, apilevel = "5.2.0", "qmark", 1, "2.0"
    SQLWCHAR = SQL_WVARCHAR = SQL_DECIMAL = 1
    BinaryNull, Cursor = None, type("Cursor", (), {})

    class Error(Exception): ...

    class InterfaceError(Error): ...

    DatabaseError = OperationalError = DataError = IntegrityError = Error
    InternalError = ProgrammingError = NotSupportedError = Error

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[int, bytes]]] = []

    def connect(self, text: str, *, attrs_before: dict[int, bytes], **_: Any) -> None:
        self.seen.append((text, attrs_before))
        raise self.InterfaceError("28000", "[28000] Login failed for user '<token-identified principal>'. (18456)")


@pytest.fixture(autouse=True)
def odbc(monkeypatch: pytest.MonkeyPatch) -> Odbc:
    made = Odbc()
    monkeypatch.setattr(MSDialect_pyodbc, "import_dbapi", lambda: made)
    return made


@pytest.fixture(autouse=True)
def issuer(monkeypatch: pytest.MonkeyPatch) -> Issuer:
    for name in ("POLLER_IDENTITY_HOSTS", "AZURE_CLIENT_ID", "AZURE_AUTHORITY_HOST", "PGSSLMODE", "PGHOST"):
        monkeypatch.delenv(name, raising=False)
    return Issuer(monkeypatch)


def source_of(url: str, identity: bool | str = True, **options: Any) -> SqlSource:
    return SqlSource(
        url, table="orders", cursor_column="at", cursor_time_zone="UTC", pk_columns=["id"], identity=identity, **options
    )


@pytest.mark.guarantee(
    "Who may see and do what",
    "An Entra token reaches only a server that is verified, this machine's too, and is Azure's or named in a setting",
)
@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (POSTGRES.replace("poller@", "poller:geheim-7@"), "a password in the URL"),
        (f"{MSSQL}&PWD=geheim-7", "a password in the URL"),
        (
            "mssql+pyodbc:///?odbc_connect=Driver=x;Server=shop.database.windows.net;PWD=geheim-7",
            "a password in the URL",
        ),
        (POSTGRES.replace("verify-full", "require"), "sslmode is require"),
        (POSTGRES.partition("?")[0], "sslmode is prefer"),
        (MYSQL.partition("?")[0], "no certificate authority"),
        (f"{MYSQL}&ssl_check_hostname=false", "no certificate authority"),
        (f"{MSSQL}&TrustServerCertificate=yes", "TrustServerCertificate is on"),
        (MSSQL.replace("18", "17"), "Encrypt is off"),
        # On this machine too: a token is good for any of Azure's databases.
        ("postgresql+psycopg://poller@127.0.0.1/shop", "sslmode is prefer"),
        ("postgresql+psycopg://poller@/shop?sslmode=verify-full", "a socket of this machine"),
        ("postgresql+psycopg://poller@/shop?sslmode=verify-full&host=/run/postgresql", "/run/postgresql"),
        (f"{MYSQL}&unix_socket=/run/mysql.sock", "a socket of this machine"),
        (POSTGRES.replace(AZURE, "db.example"), "sends no token to db.example"),
        (POSTGRES.replace(AZURE, f"{AZURE}.evil.example"), "sends no token to"),
        (POSTGRES.replace(AZURE, "shop.database.windows.net"), "sends no token to"),
        (POSTGRES.replace(AZURE, f"/shop?host={AZURE},db.example&x="), "sends no token to db.example"),
        (f"{POSTGRES}&hostaddr=10.0.0.1", "sends no token to 10.0.0.1"),
        (POSTGRES.replace("poller@", ""), "needs the user's name"),
        (MSSQL.replace("//", "//poller@"), "no other way to sign in (user)"),
        (f"{MSSQL}&Authentication=ActiveDirectoryMsi", "no other way to sign in (authentication)"),
        (MSSQL.replace("/shop?", "?"), "needs the database's name"),
        (POSTGRES.replace("psycopg", "psycopg2"), "needs the driver psycopg"),
        ("sqlite:///shop.db", "has no meaning for sqlite"),
    ],
    ids=str,
)
def test_a_token_is_refused_to_an_unsafe_or_unknown_server(url: str, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        source_of(url)
    assert refused.value.key == "identity"
    assert expected in str(refused.value)
    assert refused.value.next_step
    assert "geheim-7" not in f"{refused.value} {refused.value.next_step}"


def test_a_state_that_may_not_be_sent_a_token_is_refused(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/state.db", "postgresql+psycopg://poller@127.0.0.1/shop"):
        with pytest.raises(ConfigError) as refused:
            SqlStore(url, identity=True)
        assert refused.value.key == "state.identity"


@pytest.mark.parametrize("url", [POSTGRES, MYSQL, MSSQL, POSTGRES.replace(AZURE, AZURE.upper())], ids=str)
def test_azures_databases_are_known(url: str) -> None:
    source_of(url)


def test_a_host_of_ones_own_is_named_in_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLLER_IDENTITY_HOSTS", "other.example, DB.example")
    source_of(POSTGRES.replace(AZURE, "db.example"))


def test_a_check_that_held_at_the_start_holds_at_each_connection(
    monkeypatch: pytest.MonkeyPatch, issuer: Issuer
) -> None:
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    source = source_of(POSTGRES.partition("?")[0])
    monkeypatch.setenv("PGSSLMODE", "prefer")
    with pytest.raises(SourceUnavailable, match="sslmode is prefer"):
        source.page(None, 1)
    assert issuer.scopes == []


# --- which identity --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "identity", "made"),
    [
        ({}, True, {}),
        ({"AZURE_CLIENT_ID": CLIENT}, True, {"managed_identity_client_id": CLIENT}),
        ({"orders_db__CLIENTID": CLIENT}, "ORDERS_DB", {"managed_identity_client_id": CLIENT}),
        ({"ORDERS_DB__credential": "managedidentity"}, "ORDERS_DB", {}),
        (
            {"ORDERS_DB__credential": "managedIdentity", "ORDERS_DB__clientId": CLIENT},
            "ORDERS_DB",
            {"client_id": CLIENT},
        ),
    ],
    ids=str,
)
def test_the_settings_say_which_identity(
    monkeypatch: pytest.MonkeyPatch, issuer: Issuer, environ: dict[str, str], identity: bool | str, made: dict[str, str]
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    issuer.fails = RuntimeError("enough")
    source = source_of(POSTGRES, identity)
    for _ in range(2):
        with pytest.raises(SourceUnavailable):
            source.page(None, 1)
    assert issuer.made == [made]


def test_a_prefix_without_settings_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="ORDERS_DB__clientId and ORDERS_DB__credential"):
        source_of(POSTGRES, "ORDERS_DB")
    monkeypatch.setenv("ORDERS_DB__credential", "workload")
    with pytest.raises(ConfigError, match="ORDERS_DB__credential is not a supported way"):
        source_of(POSTGRES, "ORDERS_DB")


# --- which audience --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "authority", "audience"),
    [
        (POSTGRES, "", "ossrdbms-aad.database.windows.net"),
        (MYSQL, "", "ossrdbms-aad.database.windows.net"),
        (MSSQL, "", "database.windows.net"),
        (POSTGRES.replace("azure.com", "usgovcloudapi.net"), "", "ossrdbms-aad.database.usgovcloudapi.net"),
        (MYSQL.replace("azure.com", "chinacloudapi.cn"), "", "ossrdbms-aad.database.chinacloudapi.cn"),
        (MSSQL.replace("windows.net", "chinacloudapi.cn"), "", "database.chinacloudapi.cn"),
        (POSTGRES.replace(AZURE, "db.example"), "", "ossrdbms-aad.database.windows.net"),
        (
            POSTGRES.replace(AZURE, "db.example"),
            "https://login.microsoftonline.us",
            "ossrdbms-aad.database.usgovcloudapi.net",
        ),
    ],
    ids=str,
)
def test_the_token_is_for_the_databases_of_the_hosts_cloud(
    monkeypatch: pytest.MonkeyPatch, issuer: Issuer, url: str, authority: str, audience: str
) -> None:
    monkeypatch.setenv("POLLER_IDENTITY_HOSTS", "db.example")
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", authority)
    issuer.fails = RuntimeError("enough")
    with pytest.raises(SourceUnavailable, match="RuntimeError"):
        source_of(url).page(None, 1)
    assert issuer.scopes == [f"https://{audience}/.default"]


# --- Azure SQL, with a pretended driver ------------------------------------------------------------------------------


def test_sql_servers_driver_gets_the_token_as_an_attribute(
    monkeypatch: pytest.MonkeyPatch, issuer: Issuer, odbc: Odbc
) -> None:
    monkeypatch.setenv("AZURE_CLIENT_ID", CLIENT)
    source, tokens, said = source_of(MSSQL), [], ""
    for number in (1, 2):
        tokens.append(issuer.rotate(number))
        with pytest.raises(SourceUnavailable) as refused:
            source.page(None, 1)
        said += f"{refused.value} {refused.value.next_step}"
    assert "shop.database.windows.net" in said
    assert f"refused the token of the identity with client id {CLIENT}" in said
    assert not any(token in said for token in tokens)
    for (text, attributes), token in zip(odbc.seen, tokens, strict=True):
        length, raw = struct.unpack("<I", attributes[ACCESS_TOKEN][:4])[0], attributes[ACCESS_TOKEN][4:]
        assert ACCESS_TOKEN == 1256
        assert (length, raw.decode("utf-16-le")) == (len(raw), token)
        assert "Trusted_Connection" not in text
        assert "Server=shop.database.windows.net" in text


# --- MySQL's handshake in clear text ---------------------------------------------------------------------------------


def test_a_server_without_tls_is_sent_nothing(monkeypatch: pytest.MonkeyPatch, issuer: Issuer, tmp_path: Path) -> None:
    """Whoever stands between may answer that there is no TLS, and ask for the password in clear text."""
    received = bytearray()
    greeting = (
        b"\x0a8.0.0\0" + b"\1\0\0\0" + b"12345678\0" + struct.pack("<H", 0xF7FF & ~0x0800) + b"\xff\x02\0"
        + struct.pack("<H", 0x00FF) + b"\x15" + b"\0" * 10 + b"123456789012\0" + b"mysql_clear_password\0"
    )  # fmt: skip
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(struct.pack("<I", len(greeting)) + greeting)
            while got := connection.recv(4096):
                received.extend(got)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    monkeypatch.setenv("POLLER_IDENTITY_HOSTS", "127.0.0.1")
    port, authority = listener.getsockname()[1], certificates(tmp_path).authority
    with closing(listener), pytest.raises(SourceUnavailable):
        source_of(f"mysql+pymysql://poller@127.0.0.1:{port}/shop?ssl_ca={authority}").page(None, 1)
    thread.join(10)
    assert received == b""
    assert issuer.scopes, "it had a token"
