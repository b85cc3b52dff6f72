"""What goes wrong at three in the morning: each is one clear line on stderr, its exit code, and a command to copy."""

from __future__ import annotations

from typing import NoReturn

import pytest
import sqlalchemy as sa
from azure.storage.blob import AccountSasPermissions

from poller_cli import main
from poller_cli.terminal.printing import copyable
from tests.cli.databases import configure, on_blobs, with_sas
from tests.cli.project import Ended, Project
from tests.support.azurite import ACCOUNT, KEY, Azurite
from tests.support.cases import each
from tests.support.services import free_port

ONCE = ("run", "--once")


def failed(ended: Ended, code: int, *expected: str, hidden: str | None = None) -> None:
    """One line that says all of it, nothing on stdout, no secret anywhere."""
    line = ended.error
    assert ended.code == code, line
    for text in expected:
        assert text in line, line
    assert "Traceback" not in ended.err
    if hidden is not None:
        assert hidden not in ended.out + ended.err


def with_url(project: Project, url: str, table: str = "orders") -> None:
    configure(project, url, 'cursor_time_zone = "UTC"\nquery_timeout = "5s"', table=table)


@each("command", [ONCE, ("status",), ("peek", "orders")])
def test_a_start_that_is_no_value_of_the_column_is_not_repeated(project: Project, command: tuple[str, ...]) -> None:
    """It may have come out of a setting, and settings hold secrets."""
    project.configure("orders", source='start_from = "%START%"\n')
    project.insert(1)
    project.environ["START"] = "hunter2-hunter2"
    ended = project.run(*command)
    assert ended.code == 1
    assert "start_from" in ended.err
    assert "2026-04-07T01:23:45.123456" in ended.err
    assert "hunter2" not in ended.out + ended.err


@each(("key", "line"), [("connection", 'connection = "%HERE%"'), ("container", 'container = "x%HERE%"')])
@each("command", [("check",), ("status",)])
def test_what_a_setting_puts_into_state_is_not_repeated(
    project: Project, key: str, line: str, command: tuple[str, ...]
) -> None:
    project.configure("orders")
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('store = "sql"', f'store = "blob"\n{line}'))
    project.environ |= {"HERE": "Hunter2-hunter2", "AzureWebJobsStorage": "UseDevelopmentStorage=true"}
    ended = project.run(*command)
    assert ended.code == 2
    assert f"state.{key}" in ended.out + ended.err
    assert "%HERE%" in ended.out + ended.err
    assert "unter2" not in ended.out + ended.err


def test_a_wrong_password(project: Project, mariadb_url: str) -> None:
    from sqlalchemy import make_url

    url = make_url(mariadb_url).set(username="nobody", password="hunter2-wrong")
    with_url(project, url.render_as_string(hide_password=False))
    ended = project.run(*ONCE)
    line = ended.err.splitlines()[-1]
    assert ended.code == 1
    assert len(ended.err.splitlines()) == 1, ended.err
    assert "refused" in line or "denied" in line, line
    assert "hunter2" not in ended.out + ended.err


def test_an_unreachable_database(project: Project) -> None:
    port = free_port()
    with_url(project, f"postgresql+psycopg://u:hunter2@127.0.0.1:{port}/orders")
    failed(project.run(*ONCE), 1, "127.0.0.1", str(port), hidden="hunter2")


def test_an_unreachable_store(project: Project) -> None:
    port = free_port()
    on_blobs(project, Azurite.connection_string_via(f"http://127.0.0.1:{port}/{ACCOUNT}"), "db-state")
    failed(project.run(*ONCE), 1, "db-state", hidden=KEY)


def test_a_missing_permission_on_the_container(project: Project, azurite: Azurite, container: str) -> None:
    on_blobs(project, azurite.connection_string, container)
    token = with_sas(project, azurite, AccountSasPermissions(read=True, list=True))
    failed(project.run(*ONCE), 1, container, hidden=token.rpartition("sig=")[2][:20])


def test_an_unknown_table(project: Project, postgres_db: str) -> None:
    with_url(project, postgres_db, table="no_such_table")
    failed(project.run(*ONCE), 1, "no_such_table")
    project.configure("orders")
    project.execute("DROP TABLE orders")
    failed(project.run(*ONCE), 1, "table", "'orders'")


def test_an_unknown_column(project: Project) -> None:
    project.configure("orders")
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('"updated_at"', '"changed_at"'))
    failed(project.run(*ONCE), 1, "changed_at", "orders")


def test_a_missing_file(project: Project) -> None:
    failed(project.run(*ONCE), 2, "poller.toml")
    failed(project.run("-c", "other.toml", "status"), 2, "other.toml")


@each("arguments", [("frobnicate",), ("run", "--frobnicate"), ("run", "--once", "--until-idle"), ("status", "-c")])
def test_a_wrong_command_line(project: Project, arguments: tuple[str, ...]) -> None:
    project.configure("orders")
    failed(project.run(*arguments), 2)


def test_debug_shows_where(project: Project) -> None:
    project.write("app_name = \n")
    ended = project.run("--debug", "status")
    assert ended.code == 2
    assert "Traceback" in ended.err
    assert ended.err.splitlines()[-1].startswith("poller: ")


def test_a_byte_order_mark_before_the_configuration_is_accepted(project: Project) -> None:
    project.configure("orders")
    file = project.folder / "poller.toml"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert project.run("status").code == 0


def test_an_invalid_url_is_reported_with_a_complete_form(project: Project) -> None:
    with_url(project, "localhost/orders")
    failed(project.run(*ONCE), 2, "url", "dialect://user@host:port/database", "password")
    assert "***" not in project.run(*ONCE).err


def test_a_file_that_is_no_database(project: Project) -> None:
    project.configure("orders")
    (project.folder / "shop.db").write_bytes(b"something else entirely" * 100)
    ended = project.run(*ONCE)
    failed(ended, 1, "poller: orders: table orders: ", "cannot be read", "not a database", "path")
    assert "no such database" not in ended.err


@pytest.mark.parametrize("key", ["99999999999999999999", "9223372036854775808"])
def test_a_key_out_of_its_columns_range_names_the_option(project: Project, postgres_db: str, key: str) -> None:
    engine = sa.create_engine(postgres_db)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (id bigint PRIMARY KEY, updated_at timestamp NOT NULL)"))
        connection.execute(sa.text("INSERT INTO orders VALUES (1, '2026-01-01')"))
    engine.dispose()
    with_url(project, postgres_db)
    ended = project.run("reset-to-cursor", "orders", "--value", "2026-01-01", "--pk", f"id={key}", "--yes")
    failed(ended, 2, f"--pk id={key}", "range")


def test_a_traceback_under_debug_keeps_secrets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> NoReturn:
        raise ValueError("no route to postgresql://shop:hunter2@db.example/shop")

    monkeypatch.setattr(main, "build", refuse)
    assert main.execute(["status", "--debug"]) == 1
    expected = capsys.readouterr().err
    assert "Traceback" in expected
    assert "db.example" in expected
    assert "hunter2" not in expected


SECRET = "Jane-Doe-4711"
COMMANDS = (
    ("run", "--once"),
    ("run", "--once", "--json"),
    ("check",),
    ("check", "--json"),
    ("status",),
    ("status", "--json"),
    ("peek", "orders"),
    ("backfill", "orders", "--from", "2025-01-01", "--to", "2025-01-02", "--yes"),
)


@pytest.mark.parametrize("hidden", [True, False])
def test_no_command_shows_what_the_database_quotes(project: Project, hidden: bool) -> None:
    project.configure(
        "orders", source="filter = \"json_extract('{}', who) is null\"", poller="error_text = false" if hidden else ""
    )
    project.insert(1)
    project.execute("ALTER TABLE orders ADD COLUMN who TEXT")
    project.execute(f"UPDATE orders SET who = '{SECRET}'")
    ended = [project.run(*command) for command in COMMANDS]
    assert any(one.code for one in ended)
    shown = [command for command, one in zip(COMMANDS, ended, strict=True) if SECRET in one.out + one.err]
    assert bool(shown) is not hidden, shown


def test_an_error_names_its_command_with_the_configuration(project: Project) -> None:
    halting = "batch_size = 1\nmax_attempts = 1\non_poison = 'halt'"
    project.configure("orders", handlers="def handle(batch): raise ValueError()\n", poller=halting)
    project.insert(5)
    config = project.folder / "my shop.toml"
    (project.folder / "poller.toml").rename(config)
    option = f"poller -c '{config}'"
    assert f"{option} resume orders" in project.run("-c", str(config), "run", "--once").err
    assert f"{option} resume orders" in project.run("run", "--once", "-c", str(config)).err
    project.execute("ALTER TABLE orders RENAME TO sales")
    config.write_text(config.read_text().replace('table = "orders"', 'table = "sales"'))
    mismatch = project.run("-c", str(config), "peek", "orders")
    assert (mismatch.code, f"{option} rebind orders" in mismatch.err) == (4, True), mismatch.err
    project.environ["POLLER_CONFIG"] = str(config)
    assert "poller rebind orders" in project.run("peek", "orders").err


def test_an_undo_and_a_reset_are_named_with_the_configuration(project: Project) -> None:
    config = project.folder / "other.toml"
    project.configure("orders")
    project.insert(1)
    (project.folder / "poller.toml").rename(config)
    option = f"poller -c {config}"
    assert project.run("-c", str(config), "run", "--once").code == 0
    undo = project.run("-c", str(config), "undo", "orders", "--change", "ffff", "--yes")
    assert f"{option} undo orders --list" in undo.err
    reset = project.run("-c", str(config), "reset", "orders", "--to", "snapshot", "--yes")
    assert f"{option} reset orders --to beginning" in reset.err


def test_no_command_that_reads_a_configuration_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poller_cli.terminal.printing._options", "-c other.toml ")
    names = {name for group in main.PAGE.values() for line in group for name in line.split(", ")}

    bare = {name for name in names if "other.toml" not in copyable(f"Run: poller {name} orders")}

    assert bare == {"demo", "schema", "sink"}
