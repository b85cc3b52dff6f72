"""What import-linter cannot see: it takes `azure` for one package, whoever its parts belong to."""

from __future__ import annotations

import ast
import graphlib
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.repo.packaging.repository import import_graph, imported, sources
from tests.support.azurite import Azurite


def importers(module: str) -> set[str]:
    return {
        path
        for path, tree in sources("poller", "cli")
        if any(name == module or name.startswith(f"{module}.") for name in imported(tree))
    }


def test_only_the_functions_adapter_imports_azure_functions() -> None:
    adapters = {f"poller/functions/{name}.py" for name in ("timers", "queue", "endpoints", "prune")}
    assert importers("azure.functions") <= adapters


def circle(graph: dict[str, set[str]]) -> str:
    """A way from a module back to itself, as text; empty where there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return " -> ".join(reversed(error.args[1]))
    return ""


@pytest.mark.parametrize("folder", ["poller", "cli"])
def test_no_module_imports_itself_by_way_of_others(folder: str) -> None:
    """Not even for a type checker, or inside a function: two modules that need each other are one thought."""
    graph = import_graph((path.removeprefix("cli/"), tree) for path, tree in sources(folder))
    assert any(graph.values()), "imports are seen"
    assert circle(graph) == ""


@pytest.mark.parametrize(
    "hidden", ["if TYPE_CHECKING:\n    from p.a import A", "def late():\n    import p.a", "from p import a"]
)
def test_a_circle_is_found_wherever_an_import_stands(hidden: str) -> None:
    texts = {"p/__init__.py": "", "p/a.py": "from p.b import B", "p/b.py": hidden}
    assert circle(import_graph((path, ast.parse(text)) for path, text in texts.items())) in {
        "p.a -> p.b -> p.a",
        "p.b -> p.a -> p.b",
    }


AZURE_RELAYS = {f"poller/relays/{name}.py" for name in ("account", "blob", "event_hubs", "queue", "service_bus")}


@pytest.mark.parametrize(
    ("module", "others"),
    [
        ("azure.storage", {"poller/dispatch/queues.py", "poller/relays/blob.py", "poller/relays/queue.py"}),
        ("azure.cosmos", set()),
        ("azure.data", set()),
        ("boto3", set()),
        ("azure.identity", {"poller/entra.py"}),
        ("azure.core", {"poller/dispatch/queues.py", "poller/entra.py", "poller/relays/http.py", *AZURE_RELAYS}),
        ("azure.servicebus", {"poller/relays/service_bus.py"}),
        ("azure.eventhub", {"poller/relays/event_hubs.py"}),
    ],
)
def test_only_stores_queues_and_relays_import_cloud_sdks(module: str, others: set[str]) -> None:
    """And one module makes credentials."""
    stores = tuple(f"poller/stores/{one}/" for one in ("azure", "blob", "cosmos", "s3", "table"))
    assert {path for path in importers(module) if not path.startswith(stores)} <= others


def loaded(*code: str, cwd: Path | None = None) -> set[str]:
    """What a fresh process has loaded after these statements; what they print is not looked at."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(["import sys", *code, "print()", "print(*sys.modules)"])],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def of(modules: set[str], *packages: str) -> list[str]:
    return sorted(one for one in modules if one.partition(".")[0] in packages)


COMMAND = "from poller_cli.main import execute; assert execute({!r}) == 0"
DATABASES = ("sqlalchemy", "sqlglot")
TABLES = ("pyarrow", "adbc_driver_manager", "adbc_driver_postgresql")


def test_the_embedded_poller_loads_no_azure_package() -> None:
    """A laptop's first run, and `poller --help`, do not wait for a cloud's client to load."""
    assert of(loaded("import poller.stores, poller.sources.sql_source", COMMAND.format(["--help"])), "azure") == []


def test_a_source_with_an_identity_loads_no_azure_to_begin_with() -> None:
    url = "postgresql://poller@shop.postgres.database.azure.com/shop?sslmode=verify-full"
    made = f'SqlSource("{url}", table="t", cursor_column="at", pk_columns=["id"], identity=True)'
    assert of(loaded("from poller.sources import SqlSource", made), "azure") == []


WRITERS_OF_OTHER_PAGES = ("rich", "markdown_it", "pygments")
"""What typer writes boxes, Markdown and tracebacks with: a page of plain text needs none of it."""


def test_the_page_of_all_commands_makes_none_of_them() -> None:
    assert of(loaded(COMMAND.format(["--help"])), *WRITERS_OF_OTHER_PAGES) == []
    one = loaded(COMMAND.format(["status", "--help"]))
    assert of(one, *WRITERS_OF_OTHER_PAGES, "sqlalchemy") == []
    assert {name for name in one if name.startswith("poller_cli.commands.")} == {"poller_cli.commands.status"}


def test_a_sqlite_poller_loads_no_other_dialect(tmp_path: Path) -> None:
    """Nor sqlglot, where its configuration has no SQL."""
    (tmp_path / "poller.toml").write_text(
        'app_name = "shop"\n[state]\nstore = "sql"\n[pollers.orders.source]\nurl = "sqlite:///shop.db"\n'
        'table = "orders"\ncursor_column = "updated_at"\ncursor_time_zone = "UTC"\npk_columns = ["id"]\n'
    )
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, updated_at TEXT NOT NULL)")
    seen = loaded(COMMAND.format(["status"]), cwd=tmp_path)
    dialects = {name.split(".")[2] for name in seen if name.startswith("sqlalchemy.dialects.")}
    assert {name for name in dialects if not name.startswith("_")} == {"sqlite"}
    assert of(seen, "sqlglot", "azure") == []


def test_who_asks_no_database_loads_none(azurite: Azurite, container: str, tmp_path: Path) -> None:
    """What only looks at a store in a cloud (`poller history`) does not wait for a database's toolkit to load."""
    (tmp_path / "poller.toml").write_text(
        f'app_name = "shop"\n[state]\nconnection = "STORE"\ncontainer = "{container}"\n'
        '[pollers.orders.source]\nurl = "sqlite:///shop.db"\n'
        'table = "orders"\ncursor_column = "updated_at"\ncursor_time_zone = "UTC"\npk_columns = ["id"]\n'
    )
    store = f"import os; os.environ['STORE'] = {azurite.connection_string!r}"
    assert of(loaded("import poller"), *DATABASES, *TABLES, "azure", "pydantic") == []
    assert of(loaded(COMMAND.format(["--help"])), *DATABASES, *TABLES, "azure", "pydantic") == []
    assert of(loaded("import poller.relays"), *DATABASES, *TABLES, "azure", "pydantic", "requests") == []
    rows = 'SqlSource("sqlite://", table="t", cursor_column="at", pk_columns=["id"])'
    assert of(loaded("from poller.sources import SqlSource", rows), *TABLES) == []
    seen = loaded(store, COMMAND.format(["history", "orders"]), cwd=tmp_path)
    assert "azure.storage.blob" in seen, "the store was asked"
    assert of(seen, *DATABASES) == []
    no_document = "from poller_cli.main import execute; assert execute(['pause', 'orders', '--yes']) == 1"
    seen = loaded(store, no_document, cwd=tmp_path)
    assert "azure.storage.blob" in seen, "the store was asked"
    assert of(seen, *DATABASES) == []
