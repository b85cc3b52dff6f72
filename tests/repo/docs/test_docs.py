"""What README and docs show is run: examples, configurations, commands and links."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import sqlite3
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from examples.quickstart import make_data
from poller import Batch
from poller.config import load_config
from poller.sources import SqlSource
from poller.stores import SqlStore
from poller_cli.main import build
from scripts import published
from tests.repo.docs.blocks import GETTING_STARTED, ROOT, Block, blocks, pages, run
from tests.support import flights
from tests.support.azurite import Azurite
from tests.support.cases import each
from tests.support.waiting import row_id, waits

ENVIRONMENT = {
    "AzureWebJobsStorage": "UseDevelopmentStorage=true",
    "ORDERS_DB_URL": "postgresql+psycopg://postgres@127.0.0.1/shop",
    "ORDERS_SCHEDULE": "*/10 * * * * *",
    "SQL_SERVER_URL": "mssql+pyodbc://poller_source@server/shop?driver=ODBC+Driver+18+for+SQL+Server",
    "MYSQL_URL": "mysql+pymysql://poller_source@127.0.0.1/shop",
    "SHOP_DB_URL": "postgresql+psycopg://postgres@127.0.0.1/shop",
}
PAGES = ["poller_dashboard", "poller_dashboard_poller"]
ENDPOINTS = ["poller_health", "poller_list", "poller_details", "poller_scale", *PAGES]


def test_the_readmes_example_delivers_in_an_empty_folder(tmp_path: Path) -> None:
    (example,) = blocks("README.md", "python")

    first, again = (run([sys.executable, "-c", example.text], tmp_path).splitlines() for _ in range(2))

    assert first == ["1 99.5", "2 12.25"]
    assert again == ["3 99.5", "4 12.25"], "only what is new"


def test_pollers_run_in_a_process_of_ones_own_as_shown(tmp_path: Path) -> None:
    example = blocks("docs/python.md", "python")[0]
    _one_order(tmp_path)

    printed = run([sys.executable, "-c", example.text], tmp_path)

    assert printed.splitlines() == ["1 99.5", "orders idle no error"]


def test_a_program_looks_at_pollers_as_shown(tmp_path: Path) -> None:
    example = blocks("docs/python.md", "python")[1]
    _one_order(tmp_path)

    status, *findings = run([sys.executable, "-c", example.text], tmp_path).splitlines()

    assert status == "orders at the beginning with 1 pending: new well"
    assert [line.split()[:2] for line in findings] == [["warn", "index"], ["warn", "updates"]]


def test_a_checkpoint_is_kept_and_gone_back_to_as_shown(tmp_path: Path) -> None:
    example = blocks("docs/python.md", "python")[2]
    _one_order(tmp_path)
    run([sys.executable, "-m", "poller_cli.main", "run", "--once"], tmp_path)

    printed = run([sys.executable, "-c", example.text], tmp_path)

    assert printed.splitlines()[-2:] == [
        "1 row will never be delivered",
        "reset-to-checkpoint to 2026-01-01 00:00:00.000 / id=1",
    ]


def test_rows_that_wait_are_listed_and_given_up_as_shown(tmp_path: Path) -> None:
    example = blocks("docs/python.md", "python")[3]
    _one_order(tmp_path)
    run([sys.executable, "-m", "poller_cli.main", "run", "--once"], tmp_path)
    with closing(SqlStore("sqlite:///state.db", directory=tmp_path)) as store:
        waits(store, failed=[1], pending=[7])

    printed = run([sys.executable, "-c", example.text], tmp_path)

    first, second = (f"{row_id(number)} {{'id': {number}}}" for number in (1, 7))
    assert printed.splitlines() == [
        f"{first} aside ValueError",
        f"{second} pending ValueError",
        "1 rows discarded",
    ]


def test_a_range_is_delivered_again_as_shown(tmp_path: Path) -> None:
    example = blocks("docs/python.md", "python")[4]
    _one_order(tmp_path)

    first, again = (run([sys.executable, "-c", example.text], tmp_path).splitlines() for _ in range(2))

    assert first == ["1 99.5", "1 rows; every row was delivered"]
    assert again[0].startswith("0 rows; To deliver it once more, give it another name: name='orders-again'")


def test_batches_come_as_tables_as_shown(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    example = blocks("docs/python.md", "python")[5]
    _one_order(tmp_path)

    printed = run([sys.executable, "-c", example.text], tmp_path)

    assert printed.splitlines() == ["1"]
    (file,) = (tmp_path / "lake").iterdir()
    assert parquet.read_table(file).column("total").to_pylist() == [99.5]


def test_changes_reach_a_handler_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    space: dict[str, Any] = {}
    exec(blocks("docs/python.md", "python")[6].text, space)
    first, second = ({"id": 1, "total": 5.0, "status": status} for status in ("new", "sent"))
    gone = {"id": 2, "total": 1.0, "status": "new"}
    story: list[tuple[str, dict[str, Any], Any]] = [("I", first, None), ("U", second, first), ("D", gone, gone)]
    space["shop"][2] = 1.0
    rows = [{**row, "_op": op, "_old": old, "_change": at} for at, (op, row, old) in enumerate(story)]

    space["copy"](Batch.of_rows(rows))
    space["shipped"](Batch.of_rows(rows))

    assert space["shop"] == {1: 5.0}
    assert capsys.readouterr().out == "1 new -> sent\n"


def _one_order(folder: Path) -> None:
    (folder / "handlers.py").write_text(blocks(GETTING_STARTED, "python")[0].text)
    (folder / "poller.toml").write_text(blocks(GETTING_STARTED, "toml")[0].text)
    with sqlite3.connect(folder / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, total REAL, updated_at TEXT NOT NULL)")
        shop.execute("INSERT INTO orders VALUES (1, 99.5, '2026-01-01 00:00:00.000')")


def test_the_readmes_commands_are_targets_of_make() -> None:
    (commands,) = [block for block in blocks("README.md") if block.language == ""]
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))

    named = commands.text.split()[1::2]

    assert named == ["demo", "test"]
    assert set(named) | set(re.findall(r"`make (\w+)`", (ROOT / "README.md").read_text())) <= targets


def test_the_first_step_on_a_laptop_works_as_shown(tmp_path: Path) -> None:
    handler = blocks(GETTING_STARTED, "python")[0]
    configuration = blocks(GETTING_STARTED, "toml")[0]
    install, table, commands = blocks(GETTING_STARTED, "bash")[2:5]
    (tmp_path / "handlers.py").write_text(handler.text)
    (tmp_path / "poller.toml").write_text(configuration.text)
    assert install.text == f"{published.install()}\n"

    run(["bash", "-euc", table.text], tmp_path)
    printed = run(["bash", "-euc", commands.text], tmp_path).splitlines()

    assert printed[0] == "order 1: 99.5"
    assert printed[1].split() == ["orders", "idle"]
    assert printed[2].split()[0] == "behind"
    assert "0 rows waiting; last commit " in printed[2]


def test_the_second_step_runs_on_azurite_and_postgresql(azurite: Azurite, postgres_db: str, tmp_path: Path) -> None:
    (table,) = blocks(GETTING_STARTED, "sql")
    exports, commands = blocks(GETTING_STARTED, "bash")[-2:]
    (tmp_path / "handlers.py").write_text(blocks(GETTING_STARTED, "python")[0].text)
    text = blocks(GETTING_STARTED, "toml")[1].text
    (tmp_path / "poller.toml").write_text(
        text.replace('store = "blob"', f'store = "blob"\ncontainer = "{azurite.container_name()}"')
    )
    engine = sa.create_engine(postgres_db)
    with engine.begin() as connection:
        connection.execute(sa.text(table.text))
        connection.execute(sa.text("ALTER TABLE orders DISABLE TRIGGER USER"))
        connection.execute(sa.text("UPDATE orders SET updated_at = now() - interval '1 minute'"))
    engine.dispose()
    shown = dict(re.findall(r'^export (\w+)="(.*)"$', exports.text, re.MULTILINE))
    assert sa.make_url(shown["ORDERS_DB_URL"]).drivername == sa.make_url(postgres_db).drivername
    ours = {"AzureWebJobsStorage": azurite.connection_string, "ORDERS_DB_URL": postgres_db}
    assert shown.keys() == ours.keys()

    printed = run(["bash", "-euc", commands.text], tmp_path, **ours)

    assert "order 1: 12.5" in printed.splitlines()


@pytest.mark.parametrize(
    ("block", "pollers", "functions"),
    [
        (blocks("docs/azure-functions.md", "python")[0], ["late-orders", "2nd"], ["late_orders", "poller_2nd"]),
        (blocks("docs/azure-functions.md", "python")[1], ["orders"], ["ship"]),
        (blocks(GETTING_STARTED, "python")[1], ["orders"], ["orders"]),
        (blocks("docs/http.md", "python")[1], ["orders"], ["orders", *ENDPOINTS]),
        (blocks("docs/http.md", "python")[2], ["orders"], ENDPOINTS),
    ],
    ids=lambda value: value.where if isinstance(value, Block) else None,
)
def test_a_function_app_as_shown_has_the_functions_of_the_page(
    block: Block, pollers: list[str], functions: list[str], tmp_path: Path
) -> None:
    head, _, poller = blocks(GETTING_STARTED, "toml")[1].text.partition("[pollers.orders]")
    text = "".join(f"[pollers.{name}]{poller.replace('[pollers.orders.', f'[pollers.{name}.')}" for name in pollers)
    (tmp_path / "poller.toml").write_text(head + text)
    (tmp_path / "handlers.py").write_text(blocks(GETTING_STARTED, "python")[0].text)
    (tmp_path / "function_app.py").write_text(block.text)
    code = "import function_app; print(*[f.get_function_name() for f in function_app.app.get_functions()])"

    assert run([sys.executable, "-c", code], tmp_path, **ENVIRONMENT).split() == functions


def test_the_pipelines_line_as_shown_ends_with_what_is_wrong(tmp_path: Path) -> None:
    (line,) = blocks("docs/azure-functions.md", "sh")
    (tmp_path / "poller.toml").write_text(blocks(GETTING_STARTED, "toml")[1].text)
    handlers = tmp_path / "handlers.py"
    handlers.write_text(blocks(GETTING_STARTED, "python")[0].text)
    assert "on_orders" in run(["bash", "-euc", line.text], tmp_path, **ENVIRONMENT)

    handlers.write_text("def on_oders(batch): pass\n")
    with pytest.raises(AssertionError, match=r"ConfigError: .*pollers\.orders\.handler"):
        run(["bash", "-euc", line.text], tmp_path, **ENVIRONMENT)


def test_the_function_examples_readme_names_its_settings() -> None:
    run_here, in_azure = blocks("examples/functions/README.md", "sh")[1:]
    folder = ROOT / "examples" / "functions"
    settings = json.loads((folder / "local.settings.json.example").read_text())["Values"]
    exported = dict(word.split("=", 1) for word in shlex.split(run_here.text) if re.match(r"[A-Za-z_]+=", word))
    appsettings = in_azure.text.partition("--settings")[2].partition("\nfunc ")[0]

    wanted = {name for name in settings if name != "FUNCTIONS_WORKER_RUNTIME"}
    assert exported == {name: settings[name] for name in wanted}
    assert set(re.findall(r"([A-Z_]+)=", appsettings)) == wanted - {"AzureWebJobsStorage"}
    assert load_config(folder / "poller.toml", exported).pollers.keys() == {"orders"}


@pytest.mark.soak
def test_the_demos_flights_are_what_the_program_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = flights.JANUARY_FILE.read_bytes()
    monkeypatch.setattr(make_data, "JANUARY_FILE", tmp_path / "flights.csv.gz")

    make_data.main()

    assert gzip.decompress((tmp_path / "flights.csv.gz").read_bytes()) == gzip.decompress(shipped)


@each("page", [*pages(), "examples/functions/requirements.txt", "examples/functions/README.md"])
def test_every_extra_named_is_one_of_the_package(page: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert set(re.findall(r"(?:poller|whl|\"\.)\[([\w-]+)\]", (ROOT / page).read_text())) <= extras.keys()


@each(
    "block",
    [b for page in pages() for b in blocks(page, "toml") if "app_name" in b.text and "source" in b.text],
)
def test_every_configuration_shown_is_accepted(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "poller.toml"
    file.write_text(block.text)

    config = load_config(file, ENVIRONMENT)

    assert config.pollers


def test_templates_and_included_files_work_as_shown(tmp_path: Path) -> None:
    _, templates, include, included = blocks("docs/configuration.md", "toml")
    (tmp_path / "poller.toml").write_text('app_name = "shop"\n' + include.text + templates.text)
    (tmp_path / "pollers.d").mkdir()
    (tmp_path / "pollers.d" / "billing.toml").write_text(included.text)

    pollers = load_config(tmp_path / "poller.toml", {"SHOP_DB_URL": "sqlite:///shop.db"}).pollers

    assert {name: (one.batch_size, one.source.pk_columns) for name, one in pollers.items()} == {
        "orders": (500, ("id",)),
        "refunds": (50, ("order_id", "line")),
        "invoices": (500, ("id",)),
    }


@each("block", [b for page in pages() for b in blocks(page, "python")])
def test_every_python_example_compiles_and_imports_what_exists(block: Block) -> None:
    compile(block.text, block.where, "exec")
    ours = r"(from|import) (poller|azure)(?!\.(cosmos|servicebus)\b)"  # those two are clients of recipes
    imports = [line for line in block.text.splitlines() if re.match(ours, line)]

    exec("\n".join(imports), {})


@each("page", pages())
def test_every_link_inside_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    targets = [t.split("#")[0] for t in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in t]

    missing = [t for t in targets if t and not ((ROOT / page).parent / t).exists()]

    assert missing == []


@each("page", pages())
def test_every_command_named_exists(page: str) -> None:
    known = set(build().commands)
    text = (ROOT / page).read_text()

    named = set(re.findall(r"(?:^|`)poller ([a-z][a-z-]+)", text, re.MULTILINE))

    assert named <= known, f"{named - known} in {page}; commands: {sorted(known)}"


@each("page", pages())
def test_every_test_that_a_page_names_exists(page: str) -> None:
    named = set(re.findall(r"`((?:tests|poller/contract)/[\w/]+\.py)::(\w+)`", (ROOT / page).read_text()))

    missing = [f"{file}::{test}" for file, test in named if f"def {test}(" not in _text(file)]

    assert missing == []


def _text(file: str) -> str:
    path = ROOT / file
    return path.read_text() if path.exists() else ""


def test_the_fingerprints_test_vector_is_what_is_computed() -> None:
    (vector,) = blocks("docs/inside/rules.md", "json")
    source = SqlSource(
        "postgresql+psycopg://app:secret@DB.Example.com/shop?sslmode=require",
        schema="public",
        table="orders",
        cursor_column="updated_at",
        pk_columns=["id"],
        filter="status <> 'draft'",
    )

    assert source.describe().canonical() == vector.text.strip()
    assert f"`{source.describe().fingerprint()}`" in (ROOT / "docs/inside/rules.md").read_text()
