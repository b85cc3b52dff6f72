"""A poller's life with its state in S3, Cosmos DB and Table Storage, from the first check to a backup put back."""

from __future__ import annotations

import pytest

from tests.cli.project import Ended, Project
from tests.support.azurite import Azurite
from tests.support.cosmos import CosmosServer
from tests.support.moto import ENVIRON, REGION, Moto


@pytest.fixture(params=["s3", "cosmos", "table"])
def shop(request: pytest.FixtureRequest, project: Project) -> Project:
    project.configure("orders")
    project.insert(3)
    if request.param == "s3":
        moto: Moto = request.getfixturevalue("s3")
        state = f'store = "s3"\nbucket = "{moto.new_bucket()}"\nregion = "{REGION}"\nendpoint = "{moto.endpoint}"'
        project.environ.update(ENVIRON)
    elif request.param == "table":
        pytest.importorskip("azure.data.tables", reason="needs the extra table")
        azurite: Azurite = request.getfixturevalue("azurite")
        state = f'store = "table"\ntable = "{azurite.table_name()}"'
        project.environ["AzureWebJobsStorage"] = azurite.connection_string_with_tables
    else:
        server: CosmosServer = request.getfixturevalue("cosmos_server")
        state = f'store = "cosmos"\nconnection = "COSMOS"\ncontainer = "{server.new_container()}"'
        project.environ["COSMOS"] = server.connection_string
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('store = "sql"', state))
    return project


def ended(project: Project, *arguments: str) -> Ended:
    done = project.run(*arguments)
    assert done.code == 0, (arguments, done.err)
    return done


def test_every_kind_of_document_is_kept_there(shop: Project) -> None:
    found = ended(shop, "check", "--json").json["pollers"][0]["findings"]
    assert any("exist" in one["message"] for one in found if one["check"] in {"bucket", "container", "table"}), found
    assert ended(shop, "run", "--once", "--json").events
    status = ended(shop, "status", "--json").json["pollers"][0]
    assert status["cursor"]["tiebreaker"] == {"id": 3}
    ended(shop, "pause", "orders", "--yes")
    ended(shop, "resume", "orders", "--yes")
    ended(shop, "export-checkpoint", "orders", "kept.json")
    ended(shop, "reset-to-beginning", "orders", "--yes")
    ended(shop, "reset-to-checkpoint", "orders", "kept.json", "--yes", "--allow-skip")
    ended(shop, "clone-checkpoint", "orders", "copy", "--yes")
    changes = [one["kind"] for one in ended(shop, "history", "orders", "--json").json["records"]]
    assert {"pause", "resume", "reset-to-beginning", "reset-to-checkpoint"} <= set(changes)
    found = ended(shop, "check", "--json").json["pollers"][0]["findings"]
    of_store = {"listing", "changing"}
    assert not [
        one for one in found if one["severity"] == "error" or (one["check"] in of_store and one["severity"] != "ok")
    ]


@pytest.mark.parametrize("shop", ["table"], indirect=True)
def test_a_checkpoint_moves_from_a_database_to_a_table(shop: Project) -> None:
    text = (shop.folder / "poller.toml").read_text()
    head, _, rest = text.partition('store = "table"\n')
    (shop.folder / "before.toml").write_text(f'{head}store = "sql"\n{rest.partition(chr(10))[2]}')
    ended(shop, "run", "--once", "-c", "before.toml")
    ended(shop, "export-checkpoint", "orders", "kept.json", "-c", "before.toml")
    ended(shop, "reset-to-checkpoint", "orders", "kept.json", "--yes", "--allow-skip")
    there = ended(shop, "status", "--json").json["pollers"][0]
    before = ended(shop, "status", "--json", "-c", "before.toml").json["pollers"][0]
    assert before["cursor"]["tiebreaker"] == {"id": 3}
    assert there["cursor"] == before["cursor"]


def test_init_proposes_a_table(project: Project) -> None:
    project.configure("orders")
    project.insert(1)
    (project.folder / "poller.toml").unlink()
    (project.folder / "handlers.py").unlink()
    planned = ("init", "--url", "sqlite:///shop.db", "--table", "orders", "--time-zone", "UTC", "--state", "table")
    ended(project, *planned, "--yes")
    text = (project.folder / "poller.toml").read_text()
    assert 'store = "table"\nconnection = "AzureWebJobsStorage"' in text
