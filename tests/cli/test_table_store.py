"""A poller's life with its state in Table Storage, from `init` to a backup that is put back."""

from __future__ import annotations

import pytest

from tests.cli.project import Ended, Project
from tests.support.azurite import Azurite

pytest.importorskip("azure.data.tables", reason="needs the extra table")


@pytest.fixture
def shop(project: Project, azurite: Azurite) -> Project:
    project.configure("orders")
    project.insert(3)
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('store = "sql"', f'store = "table"\ntable = "{azurite.table_name()}"'))
    project.environ["AzureWebJobsStorage"] = azurite.connection_string_with_tables
    return project


def ended(project: Project, *arguments: str) -> Ended:
    done = project.run(*arguments)
    assert done.code == 0, (arguments, done.err)
    return done


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
