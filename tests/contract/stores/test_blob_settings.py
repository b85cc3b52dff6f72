"""Which account a configuration means: app settings named as Azure Functions names them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError

from poller.errors import ConfigError, StoreDenied
from poller.ports import Found
from poller.stores import BlobStore
from tests.support.azurite import Azurite

SECRET = "aGlkZGVuLWFjY291bnQta2V5"
ACCOUNT = f"AccountName=shop;AccountKey={SECRET}"


def located(environ: dict[str, str], name: str = "AzureWebJobsStorage") -> str:
    return BlobStore.from_settings(name, "db-state", environ).locate("x")


def test_the_setting_holds_a_connection_string(azurite: Azurite, container: str) -> None:
    store = BlobStore.from_settings("Jobs", container, {"Jobs": azurite.connection_string})
    store.write("x", b"1", if_tag=None)
    answer = store.read("x")
    assert isinstance(answer, Found)
    store.close()


@pytest.mark.parametrize(
    ("environ", "name", "account"),
    [
        ({"AzureWebJobsStorage": ACCOUNT}, "AzureWebJobsStorage", "https://shop.blob.core.windows.net"),
        ({"AzureWebJobsJobs": ACCOUNT}, "Jobs", "https://shop.blob.core.windows.net"),
        ({"A__accountName": "shop"}, "A", "https://shop.blob.core.windows.net"),
        (
            {"A__BLOBSERVICEURI": "https://shop.blob.core.chinacloudapi.cn/"},
            "A",
            "https://shop.blob.core.chinacloudapi.cn",
        ),
        (
            {"A__accountName": "shop", "A__credential": "managedidentity", "A__clientId": "1234"},
            "A",
            "https://shop.blob.core.windows.net",
        ),
        ({"A": "UseDevelopmentStorage=true"}, "A", "http://127.0.0.1:10000/devstoreaccount1"),
        ({"A": "UseDevelopmentStorage=true;"}, "A", "http://127.0.0.1:10000/devstoreaccount1"),
        (
            {"A": "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite"},
            "A",
            "http://azurite:10000/devstoreaccount1",
        ),
        (
            {"A": "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://[::1]:9000/"},
            "A",
            "http://[::1]:9000/devstoreaccount1",
        ),
    ],
)
def test_settings_lead_to_the_account(environ: dict[str, str], name: str, account: str) -> None:
    assert located(environ, name) == f"blob x in container db-state of {account}"


def test_development_storage_works_through_its_short_form(azurite: Azurite, container: str) -> None:
    short = f"UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://127.0.0.1:{azurite.port}"
    store = BlobStore.from_connection_string(short, container)
    store.write("x", b"1", if_tag=None)
    store.close()
    assert isinstance(BlobStore.from_connection_string(azurite.connection_string, container).read("x"), Found)


def test_a_missing_setting_names_the_key_and_the_variables() -> None:
    with pytest.raises(ConfigError) as caught:
        located({"Jobs": " ", "Other": ACCOUNT}, "Jobs")
    assert caught.value.key == "state.connection"
    for variable in ("Jobs,", "Jobs__blobServiceUri", "Jobs__accountName", "AzureWebJobsJobs"):
        assert variable in str(caught.value)


@pytest.mark.parametrize(
    "environ",
    [
        {"A": f"nonsense {SECRET}"},
        {"A": f"AccountKey={SECRET}"},
        {"A": f"AccountName=shop;AccountKey=not base64 {SECRET}"},
        {"A": "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=azurite"},
        {"A__blobServiceUri": "http://shop.blob.core.windows.net"},
        {"A__accountName": "shop", "A__credential": SECRET},
        {"A__blobServiceUri": f"https://user:{SECRET}@shop.blob.core.windows.net"},
        {"A": f"BlobEndpoint=https://shop.example:{SECRET}/;AccountName=shop;AccountKey=aaaa"},
    ],
)
def test_an_invalid_setting_is_refused_without_repeating_it(environ: dict[str, str]) -> None:
    with pytest.raises((ConfigError, StoreDenied)) as caught:
        BlobStore.from_settings("A", "db-state", environ).read("x")
    assert isinstance(caught.value, ConfigError)
    assert caught.value.key == "state.connection"
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "environ",
    [
        {"A": f"{ACCOUNT};BlobEndpoint=https://shop-secondary.blob.core.windows.net"},
        {"A": f"AccountName=shop-secondary;AccountKey={SECRET}"},
        {"A__accountName": "shop-secondary"},
        {"A__blobServiceUri": "https://SHOP-Secondary.z7.blob.storage.azure.net"},
        {"A__blobServiceUri": "https://shop-secondary.blob.core.usgovcloudapi.net"},
        {"A__blobServiceUri": "https://shop-secondary.privatelink.blob.core.windows.net"},
        {"A": f"{ACCOUNT};BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1-secondary"},
        {"A": f"{ACCOUNT};BlobEndpoint=https://[fd00::1]:10000/devstoreaccount1-secondary"},
        {"A": f"{ACCOUNT};BlobEndpoint=https://azurite:10000/devstoreaccount1-secondary"},
    ],
)
def test_the_read_only_secondary_is_refused_at_the_start(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="without -secondary") as refused:
        located(environ, "A")
    assert refused.value.key == "state.connection"
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://state-secondary.example.com",
        "https://azurite-secondary:10000/devstoreaccount1",
        "https://[fd00::1]:10000/devstoreaccount1",
    ],
)
def test_a_host_of_ones_own_may_be_called_secondary(endpoint: str) -> None:
    environ = {"A": f"{ACCOUNT};BlobEndpoint={endpoint}"}
    assert (
        BlobStore.from_settings("A", "state-secondary", environ).locate("x").endswith(f"state-secondary of {endpoint}")
    )


def test_a_connection_string_may_name_the_secondary_beside_it() -> None:
    both = (
        f"{ACCOUNT};BlobEndpoint=https://s.example;BlobSecondaryEndpoint=https://shop-secondary.blob.core.windows.net"
    )
    assert located({"A": both}, "A").endswith("https://s.example")


@pytest.mark.parametrize(
    "secret", ["SharedAccessSignature=sv=2026-01-01&sig=c2VjcmV0", "AccountName=shop;AccountKey=c2VjcmV0"]
)
@pytest.mark.parametrize("endpoint", ["BlobEndpoint=http://shop.example/", "DefaultEndpointsProtocol=http"])
def test_a_secret_that_would_travel_in_clear_text_is_refused(secret: str, endpoint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BlobStore.from_connection_string(f"{secret};{endpoint};", "db-state")
    assert "plain http" in str(refused.value)
    assert "c2VjcmV0" not in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1:10000", "localhost", "[::1]:1"])
def test_on_this_machine_it_may(host: str) -> None:
    BlobStore.from_connection_string(f"AccountName=shop;AccountKey=c2VjcmV0;BlobEndpoint=http://{host}/shop;").close()


@pytest.mark.parametrize("container", ["Db-State", "ab", "a--b", "-ab", "a" * 64, "a/b"])
def test_a_name_that_no_container_can_have_is_refused(container: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BlobStore.from_connection_string("UseDevelopmentStorage=true", container)
    assert caught.value.key == "state.container"


class Refusing:
    """An unavailable credential, as azure-identity says it."""

    def get_token(self, *scopes: str, **kwargs: object) -> AccessToken:
        raise ClientAuthenticationError(message=f"tried everything with {SECRET}")


def test_an_unavailable_credential_is_denied_with_a_next_step() -> None:
    store = BlobStore.from_identity("https://shop.blob.core.windows.net", credential=Refusing())
    with pytest.raises(StoreDenied) as caught:
        store.read("x")
    assert "identity" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_the_embedded_stores_load_nothing_of_azure() -> None:
    code = (
        "import sys; from poller.stores import SqlStore, MemoryStore; MemoryStore(); SqlStore('sqlite:///unused.db'); "
    )
    code += "print([name for name in sys.modules if name.split('.')[0] in ('azure', 'requests')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
