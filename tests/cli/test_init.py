"""`poller init`: what it writes runs, holds no password and overwrites nothing; a second one adds a poller; a
killed one leaves no half file."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pexpect
import pytest
import sqlalchemy as sa

from poller.config.includes import WrittenConfig
from poller.project import plan
from poller.project.file import ProjectFile, handlers_with
from poller.project.new_poller import NewPoller
from poller.project.url import GivenUrl
from tests.cli.console import Console
from tests.cli.crashes import every_moment
from tests.cli.forge import Forge
from tests.cli.project import COMMAND, Project
from tests.integration.sources.tables import execute, make_orders
from tests.support.cases import each
from tests.support.schemas import validator

STAMPS = [f"2026-01-01 00:00:0{i}" for i in range(5)]


def followed(project: Project, name: str = "orders") -> None:
    """The two commands that init names do what they say."""
    checked = project.run("check", name, "--json")
    assert checked.code == 0, checked.out
    ran = project.run("run", name, "--once", "--json")
    assert ran.code == 0, ran.err
    assert ran.events[-1]["rows"] == len(STAMPS)


def test_one_line_makes_a_poller_that_runs_on_each_database(project: Project, any_db: str) -> None:
    make_orders(any_db, STAMPS)
    ended = project.run("init", "--url", any_db, "--table", "orders", "--app", "shop", "--yes", "--json")
    assert ended.code == 0, ended.err
    validator("init").validate(ended.json)
    assert (ended.json["cursor_column"], ended.json["pk_columns"]) == ("updated_at", ["id"])
    assert ended.json["next"] == ["poller check orders", "poller run orders --once", "poller status orders"]
    if ended.json["setting"] is not None:
        assert ended.json["setting"] == f"{sa.make_url(any_db).database}_DB_URL".upper(), "after the database"
        project.environ[ended.json["setting"]] = any_db
    followed(project)


def test_the_password_reaches_no_file_and_no_output(project: Project, postgres_db: str) -> None:
    make_orders(postgres_db, STAMPS)
    url = sa.make_url(postgres_db).set(password="geheim-7").render_as_string(hide_password=False)
    ended = project.run("init", "--url", url, "--yes", "--name", "sales")
    assert ended.code == 0, ended.err
    written = "".join(path.read_text() for path in project.folder.iterdir() if path.suffix in {".toml", ".py"})
    assert "geheim-7" not in written + ended.out + ended.err
    setting = f"{sa.make_url(url).database}_DB_URL".upper()
    assert f'url = "%{setting}%"' in written
    assert f"First set {setting} to the database's URL: it holds a secret" in ended.out
    assert "poller check sales" in ended.out
    project.environ[setting] = url
    followed(project, "sales")


def test_the_missing_index_is_proposed_with_its_statement(project: Project, postgres_db: str) -> None:
    execute(
        postgres_db,
        "create table events (a int not null, b int not null, created timestamptz not null, modified timestamptz"
        " not null, primary key (a, b))",
    )
    ended = project.run("init", "--url", postgres_db, "--yes", "--json")
    assert (ended.json["cursor_column"], ended.json["pk_columns"]) == ("modified", ["a", "b"])
    (statement,) = [f["fix"] for f in ended.json["findings"] if f["check"] == "index"]
    assert statement == "CREATE INDEX events_modified_a_b ON events (modified, a, b);"


@pytest.fixture
def in_new_york(postgres_db: str) -> str:
    """A database whose sessions are in another zone than UTC, and a table that they stamp."""
    execute(
        postgres_db,
        "create table orders (id int primary key, updated_at timestamp not null default now())",
        "create index on orders (updated_at, id)",
        "insert into orders values (1, '2026-01-01')",
        f"alter database {sa.make_url(postgres_db).database} set timezone = 'America/New_York'",
    )
    return postgres_db


def test_the_zone_in_which_the_database_stamps_is_written(project: Project, in_new_york: str) -> None:
    ended = project.run("init", "--url", in_new_york, "--yes", "--json")
    assert (ended.code, ended.json["cursor_time_zone"]) == (0, "America/New_York")
    project.environ[ended.json["setting"]] = in_new_york
    assert project.run("run", "orders", "--once", "--json").events[-1]["rows"] == 1
    wrong = project.run("init", "--url", in_new_york, "--time-zone", "UTC", "--yes", "--force", "--json")
    assert wrong.code == 1
    assert [f["check"] for f in wrong.json["findings"] if f["severity"] == "error"] == ["time_zone"]
    refused = project.run("run", "orders", "--once")
    assert "America/New_York" in refused.err
    assert "bound" in refused.err


def test_a_table_without_timestamps_is_followed_by_its_number(project: Project, postgres_db: str) -> None:
    execute(
        postgres_db, "create table log (id bigserial primary key, line text)", "insert into log (line) values ('x')"
    )
    ended = project.run("init", "--url", postgres_db, "--yes", "--json")
    assert (ended.json["cursor_column"], ended.json["cursor_kind"]) == ("id", "integer+pk")


CODES = "create table codes (code varchar(20) not null primary key, label varchar(40))"


def test_a_table_that_no_column_follows_is_captured(project: Project, any_db: str) -> None:
    execute(any_db, CODES)
    refused = project.run("init", "--url", any_db, "--table", "codes", "--yes")
    assert refused.code == 2
    assert "codes has no column that could be a cursor" in refused.error
    assert "Let triggers record its changes, with --capture; or name a column with --cursor" in refused.error
    made = project.run("init", "--url", any_db, "--table", "codes", "--yes", "--capture", "--json")
    assert made.code == 0
    validator("init").validate(made.json)
    assert (made.json["cursor_column"], made.json["pk_columns"], made.json["findings"]) == (None, [], [])
    assert made.json["next"][:2] == ["poller capture codes --print", "poller capture codes --install"]
    if made.json["setting"] is not None:
        project.environ[made.json["setting"]] = any_db
    for command in made.json["next"]:
        words = command.split()[1:]
        ended = project.run(*words, *(["--yes"] if "--install" in words else []))
        assert ended.code == 0, ended.err
    execute(any_db, "insert into codes values ('a', 'first')", "delete from codes")
    delivered = project.run("run", "codes", "--until-idle").out
    assert [f"'_op': '{op}'" in delivered for op in "ID"] == [True, True]


@pytest.mark.parametrize(
    ("table", "options", "says"),
    [
        (CODES, ["--cursor", "code"], "--capture and --cursor exclude each other"),
        (CODES, ["--pk", "code"], "--pk and --time-zone are of no use"),
        ("create table codes (code varchar(20))", [], "that needs a table with a primary key"),
    ],
)
def test_what_cannot_be_captured_is_refused(
    project: Project, sqlite_url: str, table: str, options: list[str], says: str
) -> None:
    execute(sqlite_url, table)
    ended = project.run("init", "--url", sqlite_url, "--yes", "--capture", *options)
    assert ended.code == 2
    assert says in ended.error
    assert list(project.folder.glob("*.toml")) == []


def test_on_a_terminal_capture_is_proposed_for_such_a_table(project: Project, sqlite_url: str) -> None:
    execute(sqlite_url, CODES)
    environ = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    asked = project.on_terminal("init", "--url", sqlite_url, "--app", "shop", "--state", "sql", env=environ, timeout=60)
    for question in (
        r"Table \[codes\]:",
        r"or capture: triggers record its changes \[capture\]:",
        r"Poller \[codes\]:",
    ):
        asked.expect(question)
        asked.sendline("")
    asked.expect("poller capture codes --install")
    asked.expect(pexpect.EOF)
    asked.close()
    assert asked.exitstatus == 0
    assert "capture = true" in Path(project.folder / "poller.toml").read_text()


def test_nothing_is_overwritten_unless_forced(project: Project, sqlite_url: str) -> None:
    make_orders(sqlite_url, STAMPS)
    (project.folder / "handlers.py").write_text("mine = True\n")
    ended = project.run("init", "--url", sqlite_url, "--yes")
    assert ended.code == 3
    assert "handlers.py" in ended.error
    assert (project.folder / "handlers.py").read_text() == "mine = True\n"
    assert not (project.folder / "poller.toml").exists()
    assert project.run("init", "--url", sqlite_url, "--yes", "--force").code == 0
    followed(project)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "--url is missing"),
        (["--url", "nonsense"], "not a SQLAlchemy URL"),
        (["--url", "%NOT_SET_ANYWHERE%"], "NOT_SET_ANYWHERE"),
        (["--url", "URL"], "--table is missing"),
        (["--url", "URL", "--table", "ordres"], "Did you mean 'orders'?"),
        (["--url", "URL", "--table", "orders", "--cursor", "update_at"], "Did you mean 'updated_at'?"),
        (["--url", "URL", "--table", "orders", "--pk", "idd"], "Did you mean 'id'?"),
        (["--url", "URL", "--table", "orders", "--name", "Orders!"], "is an invalid name"),
        (["--url", "URL", "--table", "orders", "--state", "floppy"], "--state"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    project: Project, sqlite_url: str, arguments: list[str], expected: str
) -> None:
    make_orders(sqlite_url, STAMPS)
    execute(sqlite_url, "create table customers (id integer not null primary key)")
    ended = project.run("init", "--yes", *[sqlite_url if part == "URL" else part for part in arguments])
    assert ended.code in (1, 2)
    assert expected in ended.error
    assert list(project.folder.glob("*.toml")) == []


def test_on_a_terminal_it_asks_and_proposes(project: Project, sqlite_url: str) -> None:
    make_orders(sqlite_url, STAMPS)
    execute(sqlite_url, "create table customers (id integer not null primary key)")
    environ = {k: v for k, v in os.environ.items() if k != "AzureWebJobsStorage"} | {"NO_COLOR": "1", "COLUMNS": "200"}
    asked = project.on_terminal("init", env=environ, timeout=60)
    asked.expect("Database URL")
    asked.sendline(sqlite_url)
    for question, answer in (
        ("Table:", "orders"),
        (r"every change \[updated_at\]:", ""),
        (r"never NULL\) \[id\]:", ""),
        (r"Application", "shop"),
        (r"Poller \[orders\]:", "sales"),
        (r"sql, blob, table\) \[sql\]:", ""),
    ):
        asked.expect(question)
        asked.sendline(answer)
    asked.expect("poller run sales --once")
    asked.expect(pexpect.EOF)
    asked.close()
    assert asked.exitstatus == 0
    assert "[pollers.sales]" in Path(project.folder / "poller.toml").read_text()
    followed(project, "sales")


TWO_STAMPS = ["2026-01-01 00:00:00", "2026-01-01 00:00:01"]


@pytest.fixture
def orders_shop(project: Project, sqlite_url: str) -> Project:
    make_orders(sqlite_url, TWO_STAMPS)
    project.environ["SHOP_DB"] = sqlite_url
    return project


def test_with_its_stdin_closed_it_asks_nothing(orders_shop: Project) -> None:
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "init"],
        cwd=orders_shop.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert "--url is missing" in ended.stderr


def test_a_setting_that_was_named_is_the_one_that_the_file_names(orders_shop: Project) -> None:
    ended = orders_shop.run("init", "--url", "%SHOP_DB%", "--table", "orders", "--yes", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["setting"] == "SHOP_DB"
    assert 'url = "%SHOP_DB%"' in (orders_shop.folder / "poller.toml").read_text()
    assert orders_shop.run("run", "--once", "--json").events[-1]["rows"] == len(TWO_STAMPS)


def test_a_setting_whose_name_no_file_can_hold_is_refused(orders_shop: Project) -> None:
    orders_shop.environ["shop_db"] = orders_shop.environ["SHOP_DB"]
    ended = orders_shop.run("init", "--url", "%shop_db%", "--table", "orders", "--yes")
    assert ended.code == 2
    assert "shop_db" in ended.error
    assert not (orders_shop.folder / "poller.toml").exists()


def test_the_next_commands_can_be_copied_whatever_the_folders_name(orders_shop: Project, tmp_path: Path) -> None:
    folder = tmp_path / "my shop"
    folder.mkdir()
    config = str(folder / "poller.toml")
    ended = orders_shop.run("-c", config, "init", "--url", "%SHOP_DB%", "--table", "orders", "--yes", "--json")
    assert [shlex.split(line) for line in ended.json["next"]] == [
        ["poller", "-c", config, "check", "orders"],
        ["poller", "-c", config, "run", "orders", "--once"],
        ["poller", "-c", config, "status", "orders"],
    ]


def test_editors_find_the_schema_that_the_first_line_names(orders_shop: Project) -> None:
    arguments = ("init", "--url", "%SHOP_DB%", "--table", "orders", "--yes")
    assert orders_shop.run(*arguments).code == 0
    first, *_ = (orders_shop.folder / "poller.toml").read_text().splitlines()
    named = orders_shop.folder / first.removeprefix("#:schema ")
    written = tomllib.loads((orders_shop.folder / "poller.toml").read_text())
    schema = json.loads(named.read_text())
    jsonschema.validate(written, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**written, "app_nam": "x"}, schema)
    named.write_text(json.dumps({**schema, "description": "of an older version"}))
    assert orders_shop.run(*arguments, "--name", "again").code == 0
    assert json.loads(named.read_text()) == schema, "one that init wrote is brought up to date"


def test_a_schema_of_somebody_elses_is_not_overwritten(orders_shop: Project) -> None:
    (orders_shop.folder / "poller.schema.json").write_text('{"title": "mine"}')
    ended = orders_shop.run("init", "--url", "%SHOP_DB%", "--table", "orders", "--yes")
    assert (ended.code, (orders_shop.folder / "poller.toml").exists()) == (3, False)
    assert "poller.schema.json exists already" in ended.error


def test_a_file_that_names_no_schema_gets_none(orders_shop: Project) -> None:
    arguments = ("init", "--url", "%SHOP_DB%", "--table", "orders", "--yes")
    assert orders_shop.run(*arguments).code == 0
    config = orders_shop.folder / "poller.toml"
    config.write_text(config.read_text().partition("\n")[2])
    (orders_shop.folder / "poller.schema.json").unlink()
    assert orders_shop.run(*arguments, "--name", "again").code == 0
    assert not (orders_shop.folder / "poller.schema.json").exists()


def test_what_cannot_run_as_it_is_fails_and_says_to_fix_it_first(orders_shop: Project) -> None:
    orders_shop.execute("CREATE TABLE people (id INTEGER PRIMARY KEY NOT NULL, customer TEXT)")
    orders_shop.execute("INSERT INTO people VALUES (1, 'Ada')")
    arguments = ("--url", "sqlite:///shop.db", "--table", "people", "--cursor", "customer", "--yes")
    ended = orders_shop.run("init", *arguments)
    assert ended.code == 1
    assert "error: " in ended.out
    assert "First fix" in ended.out
    assert (orders_shop.folder / "poller.toml").exists(), "there is something to fix"


URL = "sqlite:///shop.db"
FIRST = ("init", "--url", URL, "--table", "orders", "--app", "shop", "--yes")
SECOND = ("init", "--url", URL, "--table", "customers", "--yes")


@pytest.fixture
def shop(project: Project) -> Project:
    for table in ("orders", "customers"):
        project.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        project.insert(2, table=table)
    return project


def texts(project: Project) -> dict[str, str]:
    return {name: (project.folder / name).read_text() for name in ("poller.toml", "handlers.py")}


def test_a_second_init_adds_a_poller_and_both_run(shop: Project) -> None:
    assert shop.run(*FIRST).code == 0
    config = shop.folder / "poller.toml"
    config.write_text(config.read_text() + "# mine: do not touch\n")
    config.chmod(0o640)
    before = texts(shop)

    ended = shop.run(*SECOND, "--json")

    assert ended.code == 0, ended.err
    validator("init").validate(ended.json)
    assert (ended.json["added"], ended.json["app_name"], ended.json["setting"]) == (True, "shop", None)
    assert ended.json["next"] == ["poller check customers", "poller run customers --once", "poller status customers"]
    after = texts(shop)
    assert all(after[name].startswith(before[name]) for name in before), after
    assert config.stat().st_mode & 0o777 == 0o640
    ran = shop.run("run", "--once", "--json")
    assert ran.code == 0, ran.err
    assert {e["poller"]: e["rows"] for e in ran.events if e["event"] == "tick"} == {"orders": 2, "customers": 2}


def test_an_init_knows_the_pollers_of_included_files(shop: Project) -> None:
    assert shop.run(*FIRST).code == 0
    config, included = shop.folder / "poller.toml", shop.folder / "orders.toml"
    head, own = config.read_text().split("[pollers.orders]")
    included.write_text("[pollers.orders]" + own)
    config.write_text('include = ["orders.toml"]\n' + head)
    ended = shop.run(*SECOND, "--name", "orders")
    assert ended.code == 3
    assert "orders.toml has a poller 'orders' already" in ended.error
    assert shop.run(*SECOND).code == 0
    ran = shop.run("run", "--once", "--json")
    assert {e["poller"]: e["rows"] for e in ran.events if e["event"] == "tick"} == {"orders": 2, "customers": 2}


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("--name", "orders"), 3, "has a poller 'orders' already"),
        (("--app", "bakery"), 2, "--app is 'bakery'"),
        (("--state", "blob"), 2, "--state is 'blob'"),
    ],
)
def test_what_contradicts_the_file_is_refused(
    shop: Project, arguments: tuple[str, ...], code: int, expected: str
) -> None:
    assert shop.run(*FIRST).code == 0
    before = texts(shop)
    ended = shop.run(*SECOND, *arguments)
    assert (ended.code, expected in ended.error) == (code, True), ended.err
    assert texts(shop) == before


@each(
    ("text", "expected"),
    [
        ("app_name = ", "is not valid TOML"),
        ('app_name = "shop"\nbatch = 1\n', "batch: there is no such key"),
        ('app_name = "shop"\npollers = { }\n', "no table can be added at its end"),
    ],
)
def test_a_file_that_is_wrong_is_named_and_left_alone(shop: Project, text: str, expected: str) -> None:
    shop.write(text, "def on_orders(batch): pass\n")
    before = texts(shop)
    ended = shop.run(*SECOND)
    assert (ended.code, expected in ended.error) == (2, True), ended.err
    assert "/tmp" not in ended.error
    assert texts(shop) == before


def test_existing_handlers_are_added_to_and_a_ready_one_is_taken(shop: Project) -> None:
    mine = "mine = True\r\n"
    config = 'app_name = "shop"\n[state]\nstore = "sql"\n[defaults]\nbatch_size = 7'
    shop.write(config)
    (shop.folder / "handlers.py").write_bytes(mine.encode())
    assert shop.run(*SECOND).code == 0
    handlers = (shop.folder / "handlers.py").read_bytes().decode()
    assert handlers.startswith(mine)
    assert handlers.count("\n") == handlers.count("\r\n")
    assert "def on_customers(batch):" in handlers, "this module does not know Batch"
    added = tomllib.loads((shop.folder / "poller.toml").read_text())["pollers"]["customers"]
    assert "batch_size" not in added, "[defaults] have it"
    assert shop.run("run", "--once").code == 0
    assert shop.run("init", "--url", URL, "--table", "orders", "--name", "customers-2", "--yes").code == 0
    (shop.folder / "poller.toml").write_text(config)
    before = texts(shop)["handlers.py"]
    assert shop.run(*SECOND).code == 0
    assert texts(shop)["handlers.py"] == before, "a handler of that name is there"


def test_what_the_defaults_say_of_sources_is_minded(shop: Project) -> None:
    """`init` says what `check` would say of the poller as it is read, not of one without [defaults]."""
    head = 'app_name = "shop"\n[state]\nstore = "sql"\n[defaults.source]\ncursor_kind = "integer+pk"\n'
    shop.write(head)
    ended = shop.run(*SECOND, "--json")
    assert ended.code == 0, ended.err
    assert shop.run("run", "--once", "--json").events[-1]["rows"] == 2
    shop.write(f'{head}schema = "elsewhere"\n')
    assert "elsewhere" in shop.run(*SECOND).err, "looked for where the poller would"
    shop.write(f'{head}filter = "nothing = 1"\n')
    ended = shop.run(*SECOND)
    assert (ended.code, "nothing" in ended.out) == (1, True), ended.out + ended.err


def test_a_file_that_is_changed_meanwhile_is_left_alone(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody saves it in an editor while the database is looked at."""
    shop.configure("orders")
    config, look = shop.folder / "poller.toml", plan._findings

    def saved(*given: Any) -> Any:
        config.write_text(config.read_text() + "# saved meanwhile\n")
        return look(*given)

    monkeypatch.setattr(plan, "_findings", saved)
    url = f"sqlite:///{shop.folder / 'shop.db'}"
    ended = Console(shop).run("init", "--url", url, "--table", "customers", "--yes")
    assert (ended.code, "was changed meanwhile" in ended.error) == (3, True), ended.err
    assert config.read_text().endswith("# saved meanwhile\n")


MINE = {
    "in a branch": "try:\n    from nowhere import on_customers\nexcept ImportError:\n    on_customers = print\n",
    "defined in a branch": "if True:\n    def on_customers(batch): pass\n",
    "annotated": "on_customers: object = print\n",
    "two at once": "on_customers, other = print, print\n",
    "global": "def make():\n    global on_customers\n    on_customers = print\nmake()\n",
}


def of_customers(folder: Path) -> NewPoller:
    return NewPoller(folder, folder / "poller.toml", "shop", "customers", URL, "sql", "customers", None,
                   "updated_at", "timestamp+pk", "UTC", ["id"])  # fmt: skip


@each("mine", MINE.values())
def test_a_handler_of_ones_own_is_not_replaced_wherever_it_is_made(tmp_path: Path, mine: str) -> None:
    """A second one of that name, at the end of the file, would take its rows."""
    file = tmp_path / "handlers.py"
    file.write_text(mine)
    assert handlers_with(file, of_customers(tmp_path)) is None


def test_what_only_a_type_checker_knows_is_not_used(tmp_path: Path) -> None:
    file = tmp_path / "handlers.py"
    file.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from poller import Batch\n")
    text = handlers_with(file, of_customers(tmp_path))
    assert text is not None
    made: dict[str, object] = {}
    exec(text, made)
    assert callable(made["on_customers"])


def read_as(tree: dict[str, Any]) -> ProjectFile:
    return ProjectFile(Path("poller.toml"), "", tree, WrittenConfig(Path("poller.toml"), tree, {}))


def test_pollers_of_one_database_share_its_setting() -> None:
    first = "postgresql+psycopg://shop:geheim@db.example/shop"
    tree = {"pollers": {"orders": {"source": {"url": "%MAIN_URL%"}}}, "app_name": "%APP%"}
    there = read_as(tree)
    environ = {"MAIN_URL": first}

    def kept(url: str, known: ProjectFile | None = there, **settings: str) -> str | None:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (environ | settings).items():
                patch.setenv(name, value)
            return GivenUrl(url).kept_in(Path(), known, name="orders")

    assert kept("postgresql://shop:geheim@DB.example:5432/shop") == "MAIN_URL"
    assert kept("postgresql://shop@db.example/other") == "OTHER_DB_URL"
    assert kept("postgresql://admin@db.example/shop") == "SHOP_DB_URL", "another user's is another setting"
    assert kept("mysql://db.example/app", read_as({"app_name": "%APP_DB_URL%"})) == ("APP_DB_URL_2")
    again = read_as({"pollers": {"orders": {"source": {"url": "%SHOP_DB_URL%"}}}})
    assert kept(first, again) == "SHOP_DB_URL", "what the init before asked for need not be set yet"
    assert kept(first, again, SHOP_DB_URL="mysql://elsewhere/shop") == "SHOP_DB_URL_2"
    assert kept(first, None) == "SHOP_DB_URL", "after the database, not after a table"
    assert kept("sqlite:///shop.db", None) is None


def test_settings_of_other_pollers_need_not_be_set_here(shop: Project) -> None:
    assert shop.run(*FIRST).code == 0
    config = shop.folder / "poller.toml"
    config.write_text(config.read_text().replace("sqlite:///shop.db", "%ELSEWHERE%", 1))
    ended = shop.run(*SECOND)
    assert ended.code == 0, ended.err


@pytest.mark.guarantee("Who may see and do what", "`init` writes no secret into a file")
@pytest.mark.parametrize(
    "url",
    [
        "sqlite+pysqlcipher://:geheim-7@/shop.db",
        "postgresql://shop@db/shop?sslpassword=geheim-7",
        "mysql+pymysql://shop@db/shop?ssl_key_password=geheim-7",
        "mssql+pyodbc://?odbc_connect=Driver%3DX%3BServer%3Ddb%3BPWD%3Dgeheim-7",
        "postgresql://shop@db/shop?access_token=geheim-7",
    ],
)
def test_a_url_with_a_secret_in_any_part_stays_out_of_the_file(url: str) -> None:
    given = GivenUrl(url)
    assert given.holds_secret
    assert given.kept_in(Path(), None, name="orders") is not None


def test_a_secret_on_the_command_line_is_warned_of(shop: Project) -> None:
    ended = shop.run("init", "--url", "postgresql://shop:geheim-7@127.0.0.1:1/shop", "--table", "orders", "--yes")
    assert "command line holds a secret" in ended.err
    assert "geheim-7" not in ended.out + ended.err


NAMES = [
    "a\\users",
    'tri"""quote',
    'x"""; import pathlib; pathlib.Path("pwned").touch() #',
    "x\n    import os",
    "e\x1b]0;owned\x07",
    "{self.url}",
    "Bestellungen %HOME% Köln",
]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize("name", NAMES)
def test_what_it_writes_runs_and_is_only_what_it_meant(project: Project, name: str) -> None:
    with closing(sqlite3.connect(project.folder / "shop.db")) as db, db:
        db.execute(f"CREATE TABLE {quoted(name)} (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        db.execute(f"INSERT INTO {quoted(name)} VALUES (1, '2026-01-01 00:00:00')")
    made = project.run("init", "--url", "sqlite:///shop.db", "--table", name, "--name", "orders", "--yes")
    assert made.code == 0, made.err
    assert all(c.isprintable() or c == "\n" for c in made.out + made.err)
    ended = project.run("run", "--once")
    assert ended.code == 0, ended.err
    assert "2026-01-01 00:00:00" in ended.out
    left = {path.name for path in Path(project.folder).iterdir()}
    assert left <= {"shop.db", "state.db", "poller.toml", "poller.schema.json", "handlers.py", "__pycache__"}, left


INIT = ("init", "--url", "sqlite:///shop.db", "--table", "orders", "--app", "shop", "--yes")
FILES = ("poller.toml", "handlers.py")


@pytest.mark.parametrize(
    "force", [False, pytest.param(True, marks=[pytest.mark.soak, pytest.mark.timeout(600)])], ids=["new", "force"]
)
def test_a_killed_init_leaves_no_half_file_and_goes_on(project: Project, forge: Forge, force: bool) -> None:
    project.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    project.insert(2)
    forge.folder, forge.environ = project.folder, project.environ
    command = (*INIT, "--force") if force else INIT

    def texts() -> list[str | None]:
        paths = [project.folder / name for name in FILES]
        return [path.read_text() if path.exists() else None for path in paths]

    def put_back() -> None:
        for name in FILES:
            (project.folder / name).unlink(missing_ok=True)
            if force:
                (project.folder / name).write_text("precious")

    put_back()
    before = texts()
    assert forge.run(*command) == 0, forge.err
    whole, steps = texts(), forge.steps
    writing = [number for number, step in enumerate(steps, 1) if step.startswith("write_new")]
    outcomes = set()
    for step, when in [*every_moment(steps), *((number, "within") for number in writing)]:
        put_back()
        assert forge.run(*command, step=step, when=when) == -signal.SIGKILL, forge.err
        left = texts()
        outcomes.add(tuple(one == new for one, new in zip(left, whole, strict=True)))
        assert all(one in (old, new) for one, old, new in zip(left, before, whole, strict=True)), (step, when)
        # Where all of it was there already, nothing is left to do.
        assert forge.run(*command) == (3 if left == whole and not force else 0), (step, when, forge.err)
        assert texts() == whole, (step, when)
    assert outcomes == {(False, False), (False, True), (True, True)}, "the configuration comes last"
    assert forge.run("run", "orders", "--once") == 0, forge.err
