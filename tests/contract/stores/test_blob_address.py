"""Where an address out of anybody's hands may lead, and what is sent there: nothing, as far as these tests reach."""

from __future__ import annotations

from typing import Any

import pytest
from azure.core.credentials import AccessToken

from poller.errors import ConfigError
from poller.stores import BlobStore
from poller.stores.azure.client import ServiceAccess
from tests.contract.stores.canned import Canned, answer
from tests.support.azurite import KEY

SAS = "?sv=2023-11-03&sig=SIGNATURE"
BLOB = "/theirs/state/orders.json"
ACCOUNT_KEY = "c2VjcmV0LWtleQ=="
AZURE = (
    "https://shop.blob.core.windows.net",
    "https://Shop.Blob.Core.Windows.Net",
    "https://shop-secondary.blob.core.windows.net",
    "https://shop.privatelink.blob.core.windows.net",
    "https://shop.z17.blob.storage.azure.net",
    "https://shop.blob.core.chinacloudapi.cn",
    "https://shop.blob.core.usgovcloudapi.net",
    "https://shop.blob.core.cloudapi.de",
)
ELSEWHERE = (
    "https://evil.example",
    "https://shop.blob.core.windows.net.evil.example",
    "https://evilblob.core.windows.net",
    "https://shop.blob.core.windows.net:8443",
    "https://shop.blob.core.windows.net@evil.example",
    "https://evil.example\\.blob.core.windows.net",
    "http://shop.blob.core.windows.net",
    "https://127.0.0.1:10000/devstoreaccount1",
    "https://shop.blob.core.windows.net#@evil.example",
    "https://user:word@shop.blob.core.windows.net",
)


class NoCredential:
    def get_token(self, *scopes: str, **options: object) -> AccessToken:
        raise AssertionError(f"a token was asked for: {scopes}, {options}")


def opened(address: str, **environ: str) -> BlobStore:
    store, name = BlobStore.from_address(address + BLOB, connection="Storage", environ=environ)
    assert name == "state/orders.json"
    return store


@pytest.fixture
def identities(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The endpoints that a token would be sent to."""
    found: list[str] = []
    made = ServiceAccess.by_identity

    def note(url: str, service: Any, who: object = None, *, credential: object = None) -> ServiceAccess:
        found.append(url)
        return made(url, service, credential=NoCredential())

    monkeypatch.setattr(ServiceAccess, "by_identity", note)
    return found


@pytest.mark.parametrize("endpoint", AZURE)
def test_the_operators_token_goes_to_azure_storage(endpoint: str, identities: list[str]) -> None:
    opened(endpoint).close()
    assert identities == [endpoint]


@pytest.mark.guarantee(
    "Hostile and broken input",
    "The operator's token, keys and SAS tokens go only to the configured account and Azure Storage",
)
@pytest.mark.parametrize("endpoint", ELSEWHERE)
def test_the_operators_token_goes_nowhere_else(endpoint: str, identities: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"no token is sent there|Not a blob URL"):
        opened(endpoint)
    assert identities == []


def test_the_configured_account_is_signed_into_as_configured(identities: list[str]) -> None:
    endpoint = "https://storage.intern.example"
    opened(endpoint, Storage__blobServiceUri=f"{endpoint}/").close()
    assert identities == [f"{endpoint}/"]


@pytest.mark.parametrize("front", [".evil.example", ":8443", "-evil.example", "@evil.example", "%2eevil.example"])
def test_an_address_that_only_begins_like_the_account_is_another(front: str, identities: list[str]) -> None:
    own = "https://storage.intern.example"
    for environ in (
        {"Storage__blobServiceUri": own},
        {"Storage": f"AccountName=shop;AccountKey={ACCOUNT_KEY};BlobEndpoint={own};"},
        {"Storage": f"BlobEndpoint={own};SharedAccessSignature=sig=SIGNATURE"},
    ):
        with pytest.raises(ConfigError, match=r"no token is sent there|Not a blob URL"):
            opened(own + front, **environ)
    assert identities == []


def test_a_user_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="Not a blob URL") as refused:
        BlobStore.from_address(f"https://reader:word@any.example{BLOB}{SAS}", connection="Storage", environ={})
    assert "word" not in str(refused.value)


@pytest.mark.parametrize("host", ["http://evil.example", "http://10.0.0.7", "http://localhost.evil.example"])
def test_a_sas_token_does_not_travel_in_clear_text(host: str) -> None:
    with pytest.raises(ConfigError, match="a SAS token would travel in clear text") as refused:
        BlobStore.from_address(f"{host}{BLOB}{SAS}", connection="Storage", environ={})
    assert "SIGNATURE" not in str(refused.value)


@pytest.mark.parametrize("host", ["http://127.0.0.1:9", "http://localhost:9", "http://[::1]:9", "https://any.example"])
def test_a_sas_token_may_go_over_https_or_within_this_machine(host: str) -> None:
    store, _ = BlobStore.from_address(f"{host}{BLOB}{SAS}", connection="Storage", environ={})
    store.close()


def test_an_account_key_does_not_travel_in_clear_text() -> None:
    def own(key: str) -> str:
        return f"AccountName=shop;AccountKey={key};BlobEndpoint=http://storage.example/shop;"

    with pytest.raises(ConfigError, match="would travel in clear text"):
        opened("http://storage.example/shop", Storage=own(ACCOUNT_KEY))
    opened("http://storage.example/shop", Storage=own(KEY)).close()  # an emulator's, which everybody knows


def test_an_address_is_not_left_for_another() -> None:
    with Canned(answer(200)) as other:
        moved = answer(307, Location=f"{other.endpoint}{BLOB}{SAS}")
        with Canned(moved) as first:
            store, name = BlobStore.from_address(f"{first.endpoint}{BLOB}{SAS}", connection="Storage", environ={})
            with pytest.raises(Exception, match="307"):
                store.read(name)
            store.close()
        assert other.asked == []
