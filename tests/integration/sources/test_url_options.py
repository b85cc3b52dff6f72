"""What a URL's options say of the database, and a password that was not encoded."""

from __future__ import annotations

import pytest
from sqlalchemy.engine import URL, make_url

from poller.databases import identify, place
from poller.errors import ConfigError, SourceUnavailable
from poller.sources.connection import read_url
from poller.stores import SqlStore
from tests.integration.sources.tables import orders
from tests.support.cases import each


@each(
    ("url", "expected"),
    [
        ("postgresql:///shop?host=x&port=5433", ("x", 5433, "shop")),
        ("postgresql:///shop?host=/run/pg&port=5433", ("/run/pg", 5433, "shop")),
        ("postgresql://a/shop?host=b", ("b", 5432, "shop")),
        ("postgresql://a:1/shop?port=5433", ("a", 5433, "shop")),
        ("postgresql://a:5433/shop?host=b", ("b", 5433, "shop")),
        ("postgresql://a/shop?dbname=till", ("a", 5432, "till")),
        ("postgresql:///shop?host=a,b&port=5433,5434", ("a:5433,b:5434", 5432, "shop")),
        ("postgresql:///shop?host=a:5433&host=b:5434", ("a:5433,b:5434", 5432, "shop")),
        ("postgresql:///shop?host=a,b&port=5433,5433", ("a,b", 5433, "shop")),
        ("postgresql:///shop?host=a,b&port=5433", ("a,b", 5433, "shop")),
        ("mysql+pymysql://u@/shop?unix_socket=/Run/a.sock", ("/Run/a.sock", None, "shop")),
        ("mysql+pymysql://u@localhost/shop?unix_socket=/b.sock", ("/b.sock", None, "shop")),
        ("mysql+pymysql://u@a/shop?host=b&port=3307&database=till", ("b", 3307, "till")),
        ("mssql+pyodbc://u@a/shop?driver=x&host=b&database=till", ("b", 1433, "till")),
    ],
)
def test_the_options_that_a_driver_prefers_name_the_database(url: str, expected: tuple[str, int | None, str]) -> None:
    found = identify(make_url(url))
    assert (found.host, found.port, found.database) == expected


def test_a_socket_is_described_without_a_port() -> None:
    found = identify(make_url("mysql+pymysql://u:geheim@/shop?unix_socket=/run/a.sock"))
    assert place(found) == "mysql at /run/a.sock, database shop"


@each(
    "url",
    [
        "postgresql://poller:p@ssw0rd@host/shop",
        "postgresql://poller:p@ss/w0rd@host/shop",
        "postgresql://poller:p@ss?w0rd@host/shop",
        "postgresql://poller:p@ss?w=w0rd@host/shop",
        "postgresql://poller:p@ss?a=1&w=0&b=w0rd@host/shop",
        "mysql+pymysql://poller:p@ssw0rd@host:3306/shop",
        "mssql+pyodbc://poller:p@ssw0rd@host/shop?driver=x",
    ],
)
def test_an_at_sign_in_a_password_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigError, match="%40") as error:
        orders(url)
    assert error.value.key == "url"
    assert "w0rd" not in f"{error.value} {vars(error.value)}"


@pytest.mark.parametrize(
    "url", ["postgresql://poller:123456789/shop", "mysql+pymysql://poller:99999/shop?charset=utf8mb4"]
)
def test_a_password_in_the_ports_place_is_refused_unseen(url: str) -> None:
    for read in (orders, SqlStore):
        with pytest.raises(ConfigError, match="may be a password") as error:
            read(url)
        assert "9999" not in (shown := f"{error.value} {vars(error.value)}")
        assert "123456789" not in shown


@each(
    "url",
    [
        "postgresql://poller:p%40ssw0rd@host/shop",
        "mysql+pymysql://poller@server:geheim@host/shop",  # as Azure's single servers name a user
        "postgresql://poller@host/a%40b",
        "postgresql://host/shop?user=poller@server",
        "sqlite:////a@b/c@d.db",
    ],
)
def test_an_at_sign_that_can_be_meant_is_taken(url: str) -> None:
    assert read_url(url) == make_url(url)


def test_the_parts_of_a_url_given_apart_need_no_encoding() -> None:
    url = URL.create("postgresql", "poller", "p@ss", "host", database="a@b")
    assert read_url(url) == url


@pytest.mark.parametrize(
    "url", ["postgresql://poller:geheim-7\udce4@host/shop", "sqlite:///geheim-7.db?timeout=geheim-7"]
)
def test_what_sqlalchemy_fails_on_is_refused_without_showing_it(url: str) -> None:
    """An environment that is no UTF-8; an option of another kind."""
    for read in (orders, SqlStore):
        with pytest.raises(ConfigError, match="url` is") as error:
            read(url)
        assert "geheim" not in f"{error.value} {vars(error.value)}"


def test_an_unreadable_certificate_is_named_as_that() -> None:
    with pytest.raises(SourceUnavailable, match=r"No such file.*ssl_ca"):
        orders("mysql+pymysql://poller@127.0.0.1:1/shop?ssl_ca=/nowhere/ca.pem").page(None, 1)
