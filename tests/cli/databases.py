"""A project whose rows stand in a real database, and whose state may stand in Azurite."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from tests.cli.project import Ended, Project
from tests.support.azurite import ACCOUNT, KEY, Azurite
from tests.support.schemas import validator


def configure(project: Project, url: str, source: str = "", poller: str = "", table: str = "orders") -> None:
    """One poller over a table of a real database; the URL comes from a setting, as it should."""
    project.environ["ORDERS_DB_URL"] = url
    project.write(
        f"""app_name = "shop"
[state]
store = "sql"
[pollers.orders]
handler = "handlers:handle"
{poller}
[pollers.orders.source]
url = "%ORDERS_DB_URL%"
table = "{table}"
cursor_column = "updated_at"
pk_columns = ["id"]
{source}
""",
        "def handle(batch): pass\n",
    )


def on_blobs(project: Project, connection: str, container: str) -> None:
    """A poller of three rows, whose state goes to this container."""
    project.configure("orders")
    project.execute("CREATE INDEX IF NOT EXISTS orders_cursor ON orders (updated_at)")
    project.insert(3)
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('store = "sql"', f'store = "blob"\ncontainer = "{container}"'))
    project.environ["AzureWebJobsStorage"] = connection


EVERYTHING = ResourceTypes(service=True, container=True, object=True)


def with_sas(
    project: Project, azurite: Azurite, permitted: AccountSasPermissions, kinds: ResourceTypes = EVERYTHING
) -> str:
    """The token by which its state is reached from here on."""
    token: str = generate_account_sas(ACCOUNT, KEY, kinds, permitted, expiry=datetime.now(UTC) + timedelta(hours=1))
    project.environ["AzureWebJobsStorage"] = f"BlobEndpoint={azurite.blob_endpoint};SharedAccessSignature={token}"
    return token


def done(project: Project, *arguments: str, schema: str = "change", code: int = 0) -> Ended:
    ended = project.run(*arguments, "--json")
    assert ended.code == code, ended.err
    assert KEY not in ended.out + ended.err
    if code == 0:
        validator(schema).validate(ended.json)
    else:
        assert ended.out == ""
        assert ended.error
    return ended
