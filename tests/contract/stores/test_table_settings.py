"""Which tables a configuration means, and how they are signed into."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import pytest
from azure.core.credentials import AzureNamedKeyCredential

from poller.config import StateOptions
from poller.errors import ConfigError, StoreDenied
from poller.ports import Found
from poller.stores import open_store
from tests.support.azurite import ACCOUNT, KEY, Azurite

tables = pytest.importorskip("azure.data.tables", reason="needs the extra table")

from poller.stores import TableStore  # noqa: E402

SECRET = "aGlkZGVuLWFjY291bnQta2V5"
SHOP = f"AccountName=shop;AccountKey={SECRET}"


@pytest.mark.parametrize(
    ("environ", "account"),
    [
        ({"A": SHOP}, "https://shop.table.core.windows.net"),
        ({"AzureWebJobsA": f"{SHOP};EndpointSuffix=core.chinacloudapi.cn"}, "https://shop.table.core.chinacloudapi.cn"),
        ({"A__accountName": "shop"}, "https://shop.table.core.windows.net"),
        ({"A__TABLESERVICEURI": "https://shop.table.core.windows.net/"}, "https://shop.table.core.windows.net"),
        (
            {"A__tableServiceUri": "https://t.example", "A__credential": "managedidentity", "A__clientId": "1234"},
            "https://t.example",
        ),
        ({"A": "UseDevelopmentStorage=true"}, "http://127.0.0.1:10002/devstoreaccount1"),
    ],
)
def test_settings_lead_to_the_tables_of_the_account(environ: dict[str, str], account: str) -> None:
    with_suffix = "DefaultEndpointsProtocol=https;" if "EndpointSuffix" in str(environ) else ""
    environ = {key: f"{with_suffix}{value}" for key, value in environ.items()}
    store = TableStore.from_settings("A", "dbstate", environ)
    assert store.locate("x") == f"document x in table dbstate of {account}"
    store.close()


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"B": SHOP}, "A__tableServiceUri"),
        ({"A__blobServiceUri": "https://shop.blob.core.windows.net"}, "A__tableServiceUri"),
        ({"A": f"{SHOP};BlobEndpoint=https://shop.blob.core.windows.net"}, "no TableEndpoint"),
        ({"A": f"{SHOP};TableEndpoint=http://shop.example"}, "plain http"),
        ({"A": f"{SHOP};DefaultEndpointsProtocol=http"}, "plain http"),
        ({"A": f"SharedAccessSignature=sig={SECRET};TableEndpoint=http://shop.example"}, "plain http"),
        ({"A__tableServiceUri": "http://shop.table.core.windows.net"}, "state.connection"),
        ({"A__tableServiceUri": f"https://user:{SECRET}@shop.table.core.windows.net"}, "state.connection"),
        ({"A": f"AccountName=shop;AccountKey=not base64 {SECRET}"}, "base64"),
        ({"A": f"nonsense {SECRET}"}, "state.connection"),
        ({"A__tableServiceUri": "https://shop.table.cosmos.azure.com"}, "Cosmos DB"),
        ({"A__tableServiceUri": "https://shop-secondary.table.core.windows.net"}, "without -secondary"),
        ({"A": f"{SHOP};TableEndpoint=https://shop-secondary.table.core.windows.net"}, "without -secondary"),
    ],
)
def test_an_invalid_setting_is_refused_without_repeating_it(environ: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        TableStore.from_settings("A", "dbstate", environ)
    assert refused.value.key == "state.connection"
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("table", ["db-state", "1state", "ab", "tables", "a" * 64, "st/ate"])
def test_a_name_that_no_table_can_have_is_refused(table: str) -> None:
    with pytest.raises(ConfigError) as refused:
        TableStore.from_connection_string("UseDevelopmentStorage=true", table)
    assert refused.value.key == "state.table"


def test_a_sas_token_does_what_it_permits_and_no_more(azurite: Azurite) -> None:
    TableStore.from_connection_string(azurite.connection_string_with_tables, "sastable").write("x", b"1", if_tag=None)

    def store(permission: object) -> TableStore:
        token = tables.generate_account_sas(
            AzureNamedKeyCredential(ACCOUNT, KEY),
            tables.ResourceTypes(object=True, container=True),
            permission,
            datetime.now(UTC) + timedelta(hours=1),
        )
        endpoint = f"http://127.0.0.1:{azurite.table_port}/{ACCOUNT}"
        return TableStore.from_connection_string(f"TableEndpoint={endpoint};SharedAccessSignature={token}", "sastable")

    full = store(tables.AccountSasPermissions(read=True, add=True, update=True, delete=True))
    found = full.read("x")
    assert isinstance(found, Found)
    full.remove("x", if_tag=full.write("x", b"2", if_tag=found.tag).tag)
    reads = store(tables.AccountSasPermissions(read=True))
    with pytest.raises(StoreDenied) as refused:
        reads.write("y", b"1", if_tag=None)
    assert "sig=" not in str(refused.value)


def test_without_its_package_the_store_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith(("azure.data", "poller.stores.table"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "azure.data", None)
    with pytest.raises(ConfigError, match=r"Install poller's extra table") as refused:
        open_store(StateOptions(store="table"), {"AzureWebJobsStorage": "UseDevelopmentStorage=true"})
    assert refused.value.key == "state.store"
