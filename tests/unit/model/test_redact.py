"""What may be stored of an error: one line, bounded, without secrets of any known shape (protocol 9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poller.model.redact import LIMIT, first_line, redact

SECRET = "hunter2Zx9"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql+psycopg://app:{SECRET}@db.example.com:5432/shop",
        f"could not connect to mysql://root:{SECRET}@10.0.0.1/test, giving up",
        f"mssql+pyodbc://sa:p%40ss{SECRET}@host/db?driver=x",
        f"redis://:{SECRET}@cache:6379/0",
        f"https://user:{SECRET}@example.com@evil/",
        f"DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={SECRET}==;EndpointSuffix=core.windows.net",
        f"Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=root;SharedAccessKey={SECRET}=",
        f"SharedAccessSignature=sv=2024-01-01&sig={SECRET}%3D",
        f"https://shop.blob.core.windows.net/c/b?sv=2024-11-04&sp=r&sig={SECRET}%2Bx%3D&se=2026-01-01",
        f"DRIVER={{ODBC Driver 18 for SQL Server}};SERVER=tcp:x;UID=sa;PWD={SECRET};Encrypt=yes",
        f"UID=sa;PWD={{{SECRET};with a brace}};Encrypt=yes",
        f"host=localhost user=app password={SECRET} dbname=shop",
        f"password='{SECRET} with spaces'",
        f'password = "{SECRET} with spaces"',
        f"connect(host='x', password='{SECRET}')",
        f"{{'user': 'app', 'password': '{SECRET}'}}",
        f'{{"user": "app", "password": "{SECRET}", "x": 1}}',
        f'{{"access_token":"{SECRET}"}}',
        f"DB_PASSWORD={SECRET}",
        f"PGPASSWORD={SECRET} psql",
        f"AZURE_CLIENT_SECRET={SECRET}",
        f"client_secret={SECRET}&grant_type=client_credentials",
        f"refresh_token: {SECRET}",
        f"X-Api-Key: {SECRET}",
        f"api-key={SECRET}",
        f"passwd={SECRET},user=x",
        f"password={SECRET},{SECRET}",
        f"Authorization: Bearer {SECRET}.abc-def",
        f"authorization: basic {SECRET}=",
        f"401 for header 'Bearer {SECRET}'",
        f"'Authorization': 'Bearer {SECRET}'",
    ],
)
def test_no_known_shape_of_secret_survives(text: str) -> None:
    assert SECRET not in redact(text)
    assert "***" in redact(text)


@pytest.mark.parametrize("text", [f"token {JWT} expired", f"key {KEY} refused", f"AccountKey={KEY}"])
def test_tokens_and_account_keys_are_known_by_their_own_shape(text: str) -> None:
    assert JWT not in redact(text)
    assert KEY[:20] not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        'duplicate key value violates unique constraint "orders_pkey"',
        'connection to server at "db.example.com", port 5432 failed: Connection refused',
        'relation "public.orders" does not exist',
        "KeyError: 'customer_id'",
        "https://example.com/a/b?page=2 answered 503",
        "postgresql://db.example.com:5432/shop is unreachable",
        "the bearer of bad news",
    ],
)
def test_what_helps_to_find_the_fault_is_kept(text: str) -> None:
    assert redact(text) == text


def test_what_stands_around_a_secret_is_kept() -> None:
    assert (
        redact(f"no route to postgresql://app:{SECRET}@db/shop at noon")
        == "no route to postgresql://***@db/shop at noon"
    )
    assert redact(f"AccountName=shop;AccountKey={SECRET};X=1") == "AccountName=shop;AccountKey=***;X=1"
    assert redact(f"host=db password={SECRET} dbname=shop") == "host=db password=*** dbname=shop"


def test_only_the_first_line_that_says_something_is_kept() -> None:
    assert first_line("\n\n  disk full \nDETAIL: row (1, 'private') was not written") == "disk full"
    assert first_line("") == ""
    assert first_line(" \n\t\n") == ""


def test_a_secret_that_the_bound_would_cut_in_two_is_removed_first() -> None:
    text = "x" * (LIMIT - 30) + f" postgresql://app:{SECRET}" + "y" * 100 + "@db/shop"
    line = first_line(text)
    assert SECRET[:4] not in line
    assert len(line) <= LIMIT


@given(st.text(alphabet=st.characters(), max_size=2000))
def test_any_text_becomes_one_bounded_line_that_can_be_stored(text: str) -> None:
    """Lone surrogates included: names of files have them, and JSON in UTF-8 cannot."""
    line = first_line(text)
    assert len(line) <= LIMIT
    assert len(line.splitlines()) <= 1
    line.encode("utf-8")


@given(st.text(max_size=500))
def test_what_is_clean_stays_clean(text: str) -> None:
    assert redact(redact(text)) == redact(text)
