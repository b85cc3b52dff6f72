"""A second `poller init` in a folder adds a poller to its poller.toml: what stands there stays as it is."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from poller.project import plan
from poller.project.file import ProjectFile, handlers_with
from poller.project.new_poller import NewPoller
from poller.project.url import GivenUrl
from tests.cli.console import Console
from tests.cli.project import Project
from tests.support.schemas import validator

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
    assert ended.json["next"] == ["poller check customers", "poller run customers --once"]
    after = texts(shop)
    assert all(after[name].startswith(before[name]) for name in before), after
    assert config.stat().st_mode & 0o777 == 0o640
    ran = shop.run("run", "--once", "--json")
    assert ran.code == 0, ran.err
    assert {e["poller"]: e["rows"] for e in ran.events if e["event"] == "tick"} == {"orders": 2, "customers": 2}


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--name", "orders"), 3, "has a poller 'orders' already"),
        (("--app", "bakery"), 2, "--app is 'bakery'"),
        (("--state", "blob"), 2, "--state is 'blob'"),
    ],
)
def test_what_contradicts_the_file_is_refused(shop: Project, arguments: tuple[str, ...], code: int, told: str) -> None:
    assert shop.run(*FIRST).code == 0
    before = texts(shop)
    ended = shop.run(*SECOND, *arguments)
    assert (ended.code, told in ended.error) == (code, True), ended.err
    assert texts(shop) == before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("app_name = ", "is not valid TOML"),
        ('app_name = "shop"\nbatch = 1\n', "batch: there is no such key"),
        ('app_name = "shop"\npollers = { }\n', "no table can be added at its end"),
    ],
    ids=["no TOML", "unknown key", "inline"],
)
def test_a_file_that_is_wrong_is_named_and_left_alone(shop: Project, text: str, told: str) -> None:
    shop.write(text, "def on_orders(batch): pass\n")
    before = texts(shop)
    ended = shop.run(*SECOND)
    assert (ended.code, told in ended.error) == (2, True), ended.err
    assert "/tmp" not in ended.error
    assert texts(shop) == before


def test_handlers_of_ones_own_are_added_to_and_a_ready_one_is_taken(shop: Project) -> None:
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


@pytest.mark.parametrize("mine", MINE.values(), ids=MINE)
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


def test_pollers_of_one_database_share_its_setting() -> None:
    first = "postgresql+psycopg://shop:geheim@db.example/shop"
    tree = {"pollers": {"orders": {"source": {"url": "%MAIN_URL%"}}}, "app_name": "%APP%"}
    there = ProjectFile(Path("poller.toml"), "", tree)
    environ = {"MAIN_URL": first}

    def kept(url: str, known: ProjectFile | None = there, **settings: str) -> str | None:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (environ | settings).items():
                patch.setenv(name, value)
            return GivenUrl(url).kept_in(Path(), known, name="orders")

    assert kept("postgresql://shop:geheim@DB.example:5432/shop") == "MAIN_URL"
    assert kept("postgresql://shop@db.example/other") == "OTHER_DB_URL"
    assert kept("postgresql://admin@db.example/shop") == "SHOP_DB_URL", "another user's is another setting"
    assert kept("mysql://db.example/app", ProjectFile(Path("poller.toml"), "", {"app_name": "%APP_DB_URL%"})) == (
        "APP_DB_URL_2"
    )
    again = ProjectFile(Path("poller.toml"), "", {"pollers": {"orders": {"source": {"url": "%SHOP_DB_URL%"}}}})
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


def test_nothing_is_said_of_secrets_where_there_are_none(shop: Project, postgres_db: str) -> None:
    assert not GivenUrl("postgresql://shop@db/shop?sslmode=verify-full&passfile=/x&sslkey=/y").holds_secret
    ended = shop.run(*FIRST)
    assert ended.code == 0, ended.err
    assert "holds a secret" not in ended.out + ended.err
    assert "password" not in ended.out + ended.err
    with sa.create_engine(postgres_db.replace("postgresql://", "postgresql+psycopg://")).begin() as connection:
        connection.execute(sa.text("CREATE TABLE t (id int PRIMARY KEY, updated_at timestamptz NOT NULL)"))
    if sa.make_url(postgres_db).password is None:
        for name, shared in (("t", False), ("t-2", True)):
            ended = shop.run("init", "--url", postgres_db, "--table", "t", "--name", name, "--yes")
            assert ended.code == 0, ended.err
            assert "holds a secret" not in ended.out + ended.err
            assert ("take theirs from it too" in ended.out) is shared, "the same name may be another server's database"


def test_a_secret_on_the_command_line_is_warned_of(shop: Project) -> None:
    ended = shop.run("init", "--url", "postgresql://shop:geheim-7@127.0.0.1:1/shop", "--table", "orders", "--yes")
    assert "command line holds a secret" in ended.err
    assert "geheim-7" not in ended.out + ended.err
