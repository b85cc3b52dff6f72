"""`poller import azure-functions-db`: what that library's released wheel wrote, continued without a row twice or none.

tests/cli/fixtures/make_azure_functions_db.py let it write the blobs: of ids 1 to 20, four on each timestamp, it had
delivered 10, the last one inside a tie.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pytest
import sqlalchemy as sa
from azure.storage.blob import (
    BlobServiceClient,
    ResourceTypes,
    generate_account_sas,
    generate_blob_sas,
    generate_container_sas,
)

from tests.cli.azure_functions_db import ROWS, fixture
from tests.cli.console import Console
from tests.cli.project import NOTING, Project
from tests.support.azurite import ACCOUNT, KEY, Azurite
from tests.support.cases import each

TIE = "2026-04-07 01:23:02.002"


def command(name: str, *more: str) -> tuple[str, ...]:
    return ("import", "azure-functions-db", str(fixture(name)), "--name", "orders", *more)


def seen(project: Project) -> list[int]:
    return [int(line.split()[1]) for line in project.lines("seen")]


@pytest.fixture
def shop(project: Project) -> Console:
    project.configure("orders", handlers=NOTING)
    project.execute("INSERT INTO orders VALUES (?, ?)", *ROWS)
    return Console(project)


def other_table(
    shop: Console, declared: str, *, keys: str = '["id"]', cursor: str = "updated_at", kind: str = ""
) -> None:
    """The table `orders` made anew, and configured as it is."""
    shop.project.execute("DROP TABLE orders")
    shop.project.execute(f"CREATE TABLE orders ({declared})")
    text = (shop.project.folder / "poller.toml").read_text()
    text = text.replace('pk_columns = ["id"]', f"pk_columns = {keys}\n{kind}")
    shop.project.write(text.replace('cursor_column = "updated_at"', f'cursor_column = "{cursor}"'))


def test_the_next_row_is_the_one_that_it_would_have_read_next(shop: Console) -> None:
    output = shop.done(*command("text", "--yes"))
    assert output["after"]["cursor"] == {"kind": "timestamp+pk", "value": TIE, "tiebreaker": {"id": 10}}
    assert shop.run("run", "orders", "--once").code == 0
    assert seen(shop.project) == list(range(11, 21))
    state = shop.state()
    assert state["lease"]["fencing_token"] > json.loads(fixture("text").read_text())["lease"]["fencing_token"]


def test_batch_and_origin_are_kept_in_document_and_audit_trail(shop: Console) -> None:
    theirs = json.loads(fixture("text").read_text())
    shop.done(*command("text", "--yes", "--reason", "moving house"))
    checkpoint = shop.state()["checkpoint"]
    assert checkpoint["last_successful_batch_id"] == theirs["checkpoint"]["batch_id"]
    assert checkpoint["metadata"] == {"imported_from": "azure-functions-db"}
    (record,) = shop.run("history", "orders", "--json").json["records"]
    assert (record["kind"], record["reason"]) == ("import", "moving house")
    assert record["after"]["cursor"]["tiebreaker"] == {"id": 10}


def test_a_column_of_datetimes_gets_back_its_own_form(shop: Console) -> None:
    other_table(shop, "id INTEGER PRIMARY KEY NOT NULL, updated_at DATETIME NOT NULL")
    shop.project.execute("INSERT INTO orders VALUES (?, ? || '000')", *ROWS)
    output = shop.done(*command("datetime", "--yes"))
    assert output["after"]["cursor"]["value"] == TIE + "000"
    assert shop.run("run", "orders", "--once").code == 0
    assert seen(shop.project) == list(range(11, 21))


def test_without_a_key_it_begins_at_or_after_and_says_so(shop: Console) -> None:
    ended = shop.run(*command("own-normalizer", "--yes"))
    assert ended.code == 0, ended.err
    assert "its cursor holds no key: rows of that value may come again" in ended.out
    assert shop.run("run", "orders", "--once").code == 0
    assert seen(shop.project) == list(range(8, 21)), "the whole tie comes again, and no row is missing"


def test_keys_of_an_unknown_order_are_not_guessed(shop: Console) -> None:
    declared = (
        "order_id INTEGER NOT NULL, line INTEGER NOT NULL, updated_at TEXT NOT NULL, PRIMARY KEY (order_id, line)"
    )
    other_table(shop, declared, keys='["line", "order_id"]')
    shop.project.execute("INSERT INTO orders VALUES (?, ?, ?)", *[(n // 2, n % 2, at) for n, at in ROWS])
    output = shop.done(*command("two-keys", "--yes"))
    assert output["after"]["cursor"]["tiebreaker"] is None
    assert any("order of its key columns is not known" in note for note in output["notes"])


def test_times_with_a_zone_on_postgresql(shop: Console, postgres_db: str) -> None:
    engine = sa.create_engine(postgres_db)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz NOT NULL)"))
        for number, at in ROWS:
            connection.execute(sa.text(f"INSERT INTO orders VALUES ({number}, '{at}Z')"))
    engine.dispose()
    text = (shop.project.folder / "poller.toml").read_text().replace('cursor_time_zone = "UTC"', "")
    shop.project.write(text.replace("sqlite:///shop.db", postgres_db))
    output = shop.done(*command("zoned", "--yes"))
    assert output["after"]["cursor"]["value"] == "2026-04-07T01:23:02.002000Z"
    assert any("Rows that wait behind it: 10." in note for note in output["notes"])


def test_from_the_blob_itself(shop: Console, azurite: Azurite, container: str) -> None:
    service = BlobServiceClient.from_connection_string(azurite.connection_string)
    blob = service.create_container(container).get_blob_client("state/orders.json")
    shop.project.environ["AzureWebJobsStorage"] = azurite.connection_string
    ask = ("import", "azure-functions-db", blob.url, "--name", "orders")
    shop.refused(2, *ask, "--yes", says="There is no blob state/orders.json")
    blob.upload_blob(fixture("text").read_bytes())
    output = shop.done(*ask, "--yes")
    assert output["after"]["cursor"]["tiebreaker"] == {"id": 10}
    assert blob.download_blob().readall() == fixture("text").read_bytes(), "theirs is only read"
    service.delete_container(container)


class Shared:
    """Their blob in Azurite, and addresses of it that hold a SAS token; no other way to sign in is configured.

    Attributes:
        blob: theirs. tokens: every one that was made.
    """

    def __init__(self, azurite: Azurite, container: str) -> None:
        self.service = BlobServiceClient.from_connection_string(azurite.connection_string)
        self.container = self.service.create_container(container)
        self.blob = self.container.get_blob_client("state/orders.json")
        self.tokens: list[str] = []

    def address(self, of: str = "blob", *, key: str = KEY, hours: float = 1, permission: str = "r") -> str:
        until, names = datetime.now(UTC) + timedelta(hours=hours), (ACCOUNT, self.container.container_name)
        if of == "blob":
            token = generate_blob_sas(*names, self.blob.blob_name, account_key=key, permission=permission, expiry=until)
        elif of == "container":
            token = generate_container_sas(*names, account_key=key, permission=permission, expiry=until)
        else:
            token = generate_account_sas(ACCOUNT, key, ResourceTypes(object=True), permission, until)
        self.tokens.append(token)
        return f"{self.blob.url}?{token}"

    def silent(self, *texts: str) -> None:
        """No signature stands in these, in whatever form."""
        for token in self.tokens:
            quoted = token.partition("sig=")[2].partition("&")[0]
            assert len(quoted) > 40
            for text in texts:
                assert quoted not in text
                assert unquote(quoted) not in text
                assert unquote(quoted).rstrip("=") not in text


@pytest.fixture
def shared(azurite: Azurite, container: str) -> Iterator[Shared]:
    made = Shared(azurite, container)
    yield made
    made.service.delete_container(container)
    made.service.close()


def test_by_a_sas_token_whose_signature_is_kept_nowhere(shop: Console, shared: Shared) -> None:
    shared.blob.upload_blob(fixture("text").read_bytes())
    ask = ("import", "azure-functions-db", shared.address("account"), "--name", "orders")
    looked = shop.run(*ask, "--dry-run", "--debug")
    assert looked.code == 0, looked.err
    assert "From the blob state/orders.json" in looked.out
    done = shop.run(*ask, "--yes", "--json", "--debug", "--reason", "moved")
    assert done.code == 0, done.err
    assert done.json["after"]["cursor"]["tiebreaker"] == {"id": 10}
    again = shop.run(*ask, "--yes", "--overwrite")
    assert again.code == 0, again.err
    history = shop.run("history", "orders", "--json")
    assert [one["kind"] for one in history.json["records"]] == ["import", "import"]
    files = [path.read_bytes().decode("latin-1") for path in shop.project.folder.iterdir() if path.is_file()]
    stored = [str(one) for one in shop.everything()]
    assert any("imported_from" in one for one in stored)
    shared.silent(*stored, *files, *(text for one in (looked, done, again, history) for text in (one.out, one.err)))


@pytest.mark.parametrize(
    "changed",
    [{"hours": -1}, {"key": b64encode(b"another key").decode()}, {"permission": "w"}],
    ids=["expired", "of another key", "not to read"],
)
def test_a_sas_token_that_does_not_open_it_is_one_line(shop: Console, shared: Shared, changed: dict[str, Any]) -> None:
    shared.blob.upload_blob(fixture("text").read_bytes())
    ask = ("import", "azure-functions-db", shared.address(**changed), "--name", "orders", "--yes", "--json")
    line = shop.refused(1, *ask, says="SAS token")
    assert "Access to blob state/orders.json in container" in line
    assert "was refused (403 " in line
    shared.silent(line)


def test_a_traceback_does_not_repeat_a_sas_token_either(shop: Console, shared: Shared) -> None:
    ask = ("import", "azure-functions-db", shared.address(hours=-1), "--name", "orders", "--yes", "--debug")
    ended = shop.project.run(*ask)
    assert (ended.code, ended.out) == (1, "")
    assert "Traceback" in ended.err
    shared.silent(ended.err)


def test_what_a_sas_token_opens_may_not_be_there_or_not_be_theirs(shop: Console, shared: Shared) -> None:
    ask = ("import", "azure-functions-db", shared.address("container"), "--name", "orders", "--yes")
    lines = [shop.refused(2, *ask, says="There is no blob state/orders.json")]
    shared.blob.upload_blob(b"theirs? no")
    lines.append(shop.refused(2, *ask, says="is not a state blob of azure-functions-db"))
    shared.silent(*lines)


def test_an_invalid_address_is_refused_without_showing_its_token(shop: Console) -> None:
    said = shop.refused(
        2, "import", "azure-functions-db", "https://x.blob.core.windows.net/?sig=s3cret", "--name", "orders", "--yes"
    )
    assert "s3cret" not in said


# --- guards --------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_replaced_only_when_asked_with_a_backup(shop: Console) -> None:
    assert shop.run("run", "orders", "--once").code == 0
    shop.refused(3, *command("text", "--yes"), says="--overwrite")
    output = shop.done(*command("text", "--yes", "--overwrite"))
    assert output["effect"]["redelivered"] == 10
    assert output["after"]["fencing_token"] > output["before"]["fencing_token"]
    shop.undo(output)
    assert shop.state()["checkpoint"]["cursor"]["tiebreaker"] == {"id": 20}


def test_forward_rows_would_be_skipped_and_that_needs_permission(shop: Console) -> None:
    shop.project.execute("UPDATE orders SET updated_at = '2026-04-07 02:00:00.000' WHERE id > 3")
    text = (shop.project.folder / "poller.toml").read_text()
    shop.project.write(text.replace("cursor_column", 'filter = "id < 4"\ncursor_column'))
    assert shop.run("run", "orders", "--once").code == 0
    shop.project.execute("DELETE FROM orders")
    shop.project.execute("INSERT INTO orders VALUES (?, ?)", *[(n - 10, at) for n, at in ROWS])
    before = shop.everything()
    ended = shop.run(*command("text", "--yes", "--overwrite"))
    assert (ended.code, shop.everything()) == (3, before)
    assert "--allow-skip" in ended.err
    assert shop.done(*command("text", "--yes", "--overwrite", "--allow-skip"))["effect"]["skipped"] > 0


def test_while_that_library_is_at_work_nothing_is_taken(shop: Console) -> None:
    state = json.loads(fixture("at-work").read_text())
    state["lease"]["expires_at"] = (datetime.now(UTC) + timedelta(minutes=2)).isoformat()
    copied = shop.project.folder / "live.json"
    copied.write_text(json.dumps(state))
    ask = ("import", "azure-functions-db", str(copied), "--name", "orders", "--yes")
    shop.refused(3, *ask, says="Stop that function app first")
    assert shop.done(*ask, "--break-lease")["changed"] is True


@each(
    ("body", "says"),
    [
        ("no JSON", "not a state blob"),
        ("[]", "not a state blob"),
        ('{"version": 2, "poller_name": "x", "checkpoint": {"cursor": [1]}}', "not a state blob"),
        ('{"version": 1, "poller_name": "x", "checkpoint": {"cursor": {"kind": "timestamp+pk"}}}', "of poller, not"),
        ('{"version": 1, "poller_name": "x", "checkpoint": {"cursor": ["later", 3]}}', "does not fit"),
        ('{"version": 1, "poller_name": "x", "checkpoint": {"cursor": ["2026-04-07 01:23", 3, 4]}}', "pk_columns"),
        ('{"version": 1, "poller_name": "x", "checkpoint": {"cursor": [true, 3]}}', "holds no cursor"),
        ('{"version": 1, "poller_name": "x", "checkpoint": {"cursor": "\\u0000"}}', "does not fit"),
    ],
)  # fmt: skip
def test_what_is_none_of_its_blobs_is_refused(shop: Console, body: str, says: str) -> None:
    path = shop.project.folder / "x.json"
    path.write_text(body)
    shop.refused(2, "import", "azure-functions-db", str(path), "--name", "orders", "--yes", says=says)


def test_a_poller_that_has_delivered_nothing_cannot_be_imported(shop: Console) -> None:
    shop.refused(2, *command("at-work-first-batch", "--yes"), says="delivered nothing yet")
