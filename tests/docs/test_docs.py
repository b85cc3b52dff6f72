"""What README and docs show is run: examples, configurations, commands and links."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from poller.config import load_config
from poller.sources import SqlSource
from tests.docs.blocks import ROOT, Block, blocks, pages
from tests.support.azurite import Azurite

ENVIRONMENT = {
    "AzureWebJobsStorage": "UseDevelopmentStorage=true",
    "ORDERS_DB_URL": "postgresql+psycopg://postgres@127.0.0.1/shop",
    "ORDERS_SCHEDULE": "*/10 * * * * *",
}
GETTING_STARTED = "docs/getting-started.md"


def run(arguments: list[str], folder: Path, **environment: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        arguments,
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_readmes_example_delivers(tmp_path: Path) -> None:
    (example,) = blocks("README.md", "python")
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, total REAL, updated_at TEXT NOT NULL)")
        shop.execute("INSERT INTO orders VALUES (1, 99.5, '2026-01-01 00:00:00.000')")

    printed = run([sys.executable, "-c", example.text], tmp_path)

    assert printed.splitlines() == ["1 99.5", "delivered"]


def test_the_readmes_commands_are_targets_of_make() -> None:
    (commands,) = [block for block in blocks("README.md") if block.language == ""]
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))

    named = commands.text.split()[1::2]

    assert named == ["demo", "test"]
    assert set(named) | set(re.findall(r"`make (\w+)`", (ROOT / "README.md").read_text())) <= targets


def test_the_first_step_on_a_laptop_works_as_shown(tmp_path: Path) -> None:
    handler = blocks(GETTING_STARTED, "python")[0]
    configuration = blocks(GETTING_STARTED, "toml")[0]
    install, table, commands = blocks(GETTING_STARTED, "bash")[:3]
    (tmp_path / "handlers.py").write_text(handler.text)
    (tmp_path / "poller.toml").write_text(configuration.text)
    assert install.text == "pip install poller\n"

    run(["bash", "-euc", table.text], tmp_path)
    _let_the_bound_pass(tmp_path / "shop.db")
    printed = run(["bash", "-euc", commands.text], tmp_path)

    assert "order 1: 99.5" in printed
    assert "orders" in printed.splitlines()[-8:][0] or "cursor" in printed


def _let_the_bound_pass(database: Path) -> None:
    """As if the reader had typed on for a minute: what was inserted this moment is below the bound by then."""
    with sqlite3.connect(database) as shop:
        shop.execute("UPDATE orders SET updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 minute')")


def test_the_second_step_runs_on_azurite_and_postgresql(azurite: Azurite, postgres_db: str, tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text(blocks(GETTING_STARTED, "python")[0].text)
    text = blocks(GETTING_STARTED, "toml")[1].text
    (tmp_path / "poller.toml").write_text(
        text.replace('store = "blob"', f'store = "blob"\ncontainer = "{azurite.container_name()}"')
    )
    engine = sa.create_engine(postgres_db)
    with engine.begin() as connection:
        connection.execute(
            sa.text("CREATE TABLE orders (id int PRIMARY KEY, total numeric, updated_at timestamptz NOT NULL)")
        )
        connection.execute(sa.text("INSERT INTO orders VALUES (7, 12.5, now() - interval '1 minute')"))
    engine.dispose()

    printed = run(
        ["poller", "run", "--until-idle"],
        tmp_path,
        AzureWebJobsStorage=azurite.connection_string,
        ORDERS_DB_URL=postgres_db,
    )

    assert "order 7: 12.5" in printed


@pytest.mark.parametrize(
    "block",
    [b for page in pages() for b in blocks(page, "toml") if "app_name" in b.text],
    ids=lambda block: block.where,
)
def test_every_configuration_shown_is_accepted(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "poller.toml"
    file.write_text(block.text)

    config = load_config(file, ENVIRONMENT)

    assert config.pollers


@pytest.mark.parametrize(
    "block", [b for page in pages() for b in blocks(page, "python")], ids=lambda block: block.where
)
def test_every_python_example_compiles_and_imports_what_exists(block: Block, tmp_path: Path) -> None:
    compile(block.text, block.where, "exec")
    imports = [line for line in block.text.splitlines() if re.match(r"(from|import) (poller|azure)", line)]

    run([sys.executable, "-c", "\n".join(imports)], tmp_path)


@pytest.mark.parametrize("page", pages())
def test_every_link_inside_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    targets = [t.split("#")[0] for t in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in t]

    missing = [t for t in targets if t and not ((ROOT / page).parent / t).exists()]

    assert missing == []


@pytest.mark.parametrize("page", pages())
def test_every_command_named_exists(page: str) -> None:
    known = set(re.findall(r"^\W{1,3}([a-z][a-z-]+)\s{2,}", run(["poller", "--help"], ROOT), re.MULTILINE))
    text = (ROOT / page).read_text()

    named = set(re.findall(r"(?:^|`)poller ([a-z][a-z-]+)", text, re.MULTILINE))

    assert named <= known, f"{named - known} in {page}; commands: {sorted(known)}"


@pytest.mark.parametrize("page", pages())
def test_every_test_that_a_page_names_exists(page: str) -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / page).read_text()))

    missing = [f"{file}::{test}" for file, test in named if f"def {test}(" not in _text(file)]

    assert missing == []


def _text(file: str) -> str:
    path = ROOT / file
    return path.read_text() if path.exists() else ""


def test_the_fingerprints_test_vector_is_what_is_computed() -> None:
    (vector,) = blocks("docs/sources.md", "json")
    source = SqlSource(
        "postgresql+psycopg://app:secret@DB.Example.com/shop?sslmode=require",
        schema="public",
        table="orders",
        cursor_column="updated_at",
        pk_columns=["id"],
        filter="status <> 'draft'",
    )

    assert source.describe().canonical() == vector.text.strip()
    assert f"`{source.describe().fingerprint()}`" in (ROOT / "docs/sources.md").read_text()
