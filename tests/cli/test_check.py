"""`poller check`: what is wrong is found before it hurts, through views and queries too, with the next step."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy as sa
from azure.storage.blob import (
    AccountSasPermissions,
    BlobServiceClient,
    ResourceTypes,
    RetentionPolicy,
)

from tests.cli.checks import fix, found, make_table, wrong
from tests.cli.databases import configure, on_blobs, with_sas
from tests.cli.project import COMMAND, Project, as_anybody
from tests.integration.sources.tables import execute
from tests.support.azurite import Azurite
from tests.support.cases import each
from tests.support.mysql_family import MySqlFamilyServer
from tests.support.services import free_port, wait_until


def test_a_sound_poller_is_well_and_nothing_was_written(project: Project) -> None:
    project.configure("orders")
    project.execute("CREATE INDEX orders_cursor ON orders (updated_at)")
    project.insert(30)
    ended = project.run("check", "--json")
    assert wrong(ended) == {}
    assert (ended.code, ended.json["ok"]) == (0, True)
    assert {"storage", "state", "handler", "schedule", "lease", "index", "round_trip", "clock"} <= found(ended).keys()
    assert "pairs of neighbouring rows" in found(ended)["round_trip"]["message"]
    assert project.run("status", "--json").json["pollers"][0]["exists"] is False
    screen = project.run("check")
    assert "all is well" in screen.out
    assert screen.err == ""


@pytest.mark.parametrize("database", ["postgres_db", "mariadb_db"])
def test_each_finding_is_fixed_by_its_own_statement(
    project: Project, database: str, request: pytest.FixtureRequest
) -> None:
    url: str = request.getfixturevalue(database)
    make_table(url, 2_000)
    execute(url, "insert into orders values (9001, null), (9002, null)")
    configure(project, url, 'cursor_time_zone = "UTC"')
    first = project.run("check", "--json")
    assert first.code == 1
    assert wrong(first) == {"nulls": "error", "index": "warn", "plan": "warn", "delivery": "error"}
    assert "2 rows have no value" in found(first)["nulls"]["message"]
    assert found(first)["index"]["fix"].startswith("CREATE INDEX orders_updated_at_id ON orders (updated_at, id)")
    assert fix(url, first)

    def is_well() -> bool:
        """An index over rows that were just updated is not used beside older transactions, also of other databases."""
        ended = project.run("check", "--json")
        assert set(wrong(ended)) <= {"plan"}
        return ended.code == 0 and not wrong(ended)

    wait_until(is_well, "a check without findings", seconds=60)


@pytest.mark.parametrize("database", ["postgres_db", "mariadb_db"])
def test_a_key_that_is_none_is_an_error_with_the_statement(
    project: Project, database: str, request: pytest.FixtureRequest
) -> None:
    url: str = request.getfixturevalue(database)
    make_table(url, primary=False)
    configure(project, url, 'cursor_time_zone = "UTC"')
    ended = project.run("check", "--json")
    assert ended.code == 1
    assert wrong(ended) == {"key": "error", "delivery": "error"}
    assert any(statement.startswith("CREATE UNIQUE INDEX") for statement in fix(url, ended))
    assert "key" not in wrong(project.run("check", "--json"))


@pytest.fixture
def role(postgres_db: str) -> Iterator[str]:
    """A PostgreSQL role that may do nothing yet."""
    name = f"reader_{uuid.uuid4().hex[:8]}"
    execute(postgres_db, f"create role {name} login password 'geheim-7'")
    yield name
    execute(postgres_db, f"drop owned by {name}", f"drop role {name}")


def test_missing_postgresql_privileges_are_granted_as_printed(project: Project, postgres_db: str, role: str) -> None:
    make_table(postgres_db)
    execute(
        postgres_db,
        "alter table orders alter column updated_at set not null",
        "create index on orders (updated_at, id)",
    )
    url = sa.make_url(postgres_db).set(username=role, password="geheim-7")
    configure(project, url.render_as_string(hide_password=False))
    first = project.run("check", "--json")
    assert found(first)["privileges"]["fix"] == f"GRANT SELECT ON orders TO {role};"
    assert first.code == 1
    fix(postgres_db, first)
    second = project.run("check", "--json")
    assert found(second)["privileges"]["fix"] == f"GRANT pg_read_all_stats TO {role};"
    assert wrong(second) == {"privileges": "warn"}
    fix(postgres_db, second)
    third = project.run("check", "--json")
    assert (third.code, wrong(third)) == (0, {})
    assert found(third)["bound"]["message"].startswith("exact")
    assert "geheim-7" not in first.out + second.out + first.err


def test_a_prepared_transaction_is_named_and_ended(project: Project, postgres_db: str) -> None:
    make_table(postgres_db)
    execute(postgres_db, "alter table orders alter updated_at set not null", "create index on orders (updated_at, id)")
    engine = sa.create_engine(postgres_db, poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql("insert into orders values (7000, now())")
        connection.exec_driver_sql("prepare transaction 'left over'")
    configure(project, postgres_db)
    ended = project.run("check", "--json")
    assert ended.code == 1
    assert "'left over'" in found(ended)["prepared"]["message"]
    assert "ROLLBACK PREPARED 'left over'" in fix(postgres_db, ended)
    assert "prepared" not in wrong(project.run("check", "--json"))


def test_an_invalid_configuration_is_reported_beside_the_others(project: Project) -> None:
    project.configure("orders", "invoices")
    project.insert(3)
    text = (project.folder / "poller.toml").read_text()
    project.write(text + 'filter = "1 = 1; drop table orders"\n')
    ended = project.run("check", "--json")
    assert ended.code == 2
    shown = {one["name"]: one for one in ended.json["pollers"]}
    assert (shown["invoices"]["errors"], shown["orders"]["errors"]) == (1, 0)


def test_without_process_it_guesses_and_says_the_grant(
    project: Project, family_server: MySqlFamilyServer, family_db: str
) -> None:
    make_table(family_db)
    execute(
        family_db,
        "alter table orders modify updated_at datetime(6) not null default now(6) on update now(6)",
        "create index c on orders (updated_at)",
    )
    name = f"reader_{uuid.uuid4().hex[:8]}"
    database = sa.make_url(family_db).database
    execute(
        family_db, f"create user '{name}'@'%' identified by 'geheim-7'", f"grant select on {database}.* to '{name}'@'%'"
    )
    try:
        url = sa.make_url(family_db).set(username=name, password="geheim-7")
        configure(project, url.render_as_string(hide_password=False), 'cursor_time_zone = "UTC"')
        first = project.run("check", "--json")
        assert wrong(first) == {"privileges": "warn", "bound": "warn"}
        lacks = "PROCESS" if family_server.is_mariadb else "PROCESS, XA_RECOVER_ADMIN"
        assert found(first)["privileges"]["fix"] == f"GRANT {lacks} ON *.* TO '{name}'@'%';"
        assert found(first)["bound"]["message"].startswith("heuristic")
        fix(family_db, first)
        second = project.run("check", "--json")
        assert wrong(second) == {}
        assert found(second)["bound"]["message"].startswith("observed")
    finally:
        execute(family_db, f"drop user '{name}'@'%'")


def test_text_written_in_two_forms_is_an_error_with_the_odd_one(project: Project) -> None:
    project.configure("orders")
    project.insert(30)
    project.execute("INSERT INTO orders VALUES (77, '2026-01-01T00:00:01Z')")
    project.execute("INSERT INTO orders VALUES (78, '2026-01-02 00:00:00')")
    ended = project.run("check", "--json")
    assert ended.code == 1
    assert "'2026-01-01T00:00:01Z'" in found(ended)["forms"]["message"]


def test_keys_of_two_types_whose_cursors_do_not_lead_on_are_named(project: Project) -> None:
    project.configure("orders")
    project.execute("DROP TABLE orders")
    project.execute("CREATE TABLE orders (id NOT NULL PRIMARY KEY, updated_at TEXT NOT NULL)")
    stamp = "2026-01-01 00:00:00"
    project.execute("INSERT INTO orders VALUES (?, ?)", (1, stamp), ("2", stamp), (3, "2026-01-01 00:00:01"))
    ended = project.run("check", "--json")
    assert ended.code == 1
    assert "column id holds integer values, and one of type str" in found(ended)["round_trip"]["message"]


def test_rows_from_the_future_are_counted(project: Project) -> None:
    project.configure("orders")
    project.insert(3)
    project.execute("INSERT INTO orders VALUES (50, '2099-01-01 00:00:00')")
    ended = project.run("check", "--json")
    assert ended.code == 0
    assert "1 row is dated after now, up to 2099-01-01 00:00:00" in found(ended)["future"]["message"]


def test_a_zone_whose_clocks_are_set_back_is_a_warning(project: Project) -> None:
    project.configure("orders", source="allow_dst = true")
    text = (project.folder / "poller.toml").read_text().replace('"UTC"', '"Europe/Berlin"')
    project.write(text)
    project.insert(3)
    assert "Europe/Berlin" in found(project.run("check", "--json"))["time_zone"]["message"]


def test_a_checkpoint_of_another_source_exits_4(project: Project) -> None:
    project.configure("orders")
    project.insert(3)
    assert project.run("run", "--once").code == 0
    text = (project.folder / "poller.toml").read_text()
    project.write(text + 'filter = "id > 1"\n')
    ended = project.run("check", "--json")
    assert ended.code == 4
    assert "poller rebind orders" in found(ended)["fingerprint"]["fix"]


def test_handler_host_and_pause_are_looked_at(project: Project) -> None:
    project.configure("orders", handlers="import nothing_of_this_name\n", poller='tick_timeout = "6m"')
    (project.folder / "host.json").write_text(json.dumps({"version": "2.0", "functionTimeout": "00:05:00"}))
    project.insert(3)
    assert project.run("pause", "orders", "--yes", "--reason", "night").code in (0, 1)
    ended = project.run("check", "--json")
    assert ended.code == 1
    assert wrong(ended).items() >= {"handler": "error", "host": "error"}.items()
    assert "nothing_of_this_name" in found(ended)["handler"]["message"]
    assert found(ended)["host"]["fix"] == 'tick_timeout = "4m30s"'
    project.configure("orders")
    assert project.run("run", "--once").code == 0
    assert project.run("pause", "orders", "--yes", "--reason", "night").code == 0
    shown = found(project.run("check", "--json"))
    assert shown["delivery"]["fix"] == "poller resume orders"
    assert "night" in shown["delivery"]["message"]
    assert shown["host"]["severity"] == "ok"


def test_what_a_handlers_module_prints_does_not_spoil_the_json(project: Project) -> None:
    project.configure("orders", handlers="print('loading')\ndef handle(batch): pass\n")
    ended = project.run("check", "--json")
    assert ended.json["pollers"][0]["name"] == "orders"
    assert "loading" in ended.err


def test_an_unreachable_database_hides_no_other_finding(project: Project) -> None:
    configure(project, f"postgresql+psycopg://shop:geheim-7@127.0.0.1:{free_port()}/shop")
    ended = project.run("check", "--json")
    assert ended.code == 1
    assert wrong(ended) == {"database": "error", "delivery": "error"}
    assert found(ended)["delivery"]["message"] == "Its database cannot be reached."
    assert found(ended)["storage"]["severity"] == "ok"
    assert "geheim-7" not in ended.out + ended.err


def test_storage_that_may_be_written_and_its_settings(project: Project, azurite: Azurite, container: str) -> None:
    on_blobs(project, azurite.connection_string, container)
    before = project.run("check", "--json")
    assert "does not exist yet" in found(before)["container"]["message"]
    service = BlobServiceClient.from_connection_string(azurite.connection_string)
    assert container not in [one.name for one in service.list_containers()], "looking must not create it"
    assert project.run("run", "--once").code == 0
    assert found(project.run("check", "--json"))["container"]["message"].endswith("exists")
    assert not [blob.name for blob in service.get_container_client(container).list_blobs("control/")]
    service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=7))
    try:
        ended = project.run("check", "--json")
    finally:
        service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=False))
    assert ended.code == 0
    assert wrong(ended) == {"soft_delete": "warn"}
    assert "7 days" in found(ended)["soft_delete"]["message"]
    assert "LIST" in found(ended)["soft_delete"]["message"]
    assert found(ended)["namespace"]["severity"] == "ok"


def test_storage_that_may_only_be_read_is_an_error(project: Project, azurite: Azurite, container: str) -> None:
    on_blobs(project, azurite.connection_string, container)
    assert project.run("run", "--once").code == 0
    token = with_sas(project, azurite, AccountSasPermissions(read=True, list=True))
    ended = project.run("check", "--json")
    assert ended.code == 1
    assert found(ended)["storage"]["severity"] == "error"
    assert "writing is not" in found(ended)["storage"]["message"]
    assert found(ended)["state"]["severity"] == "ok"
    assert token not in ended.out + ended.err


def test_storage_that_may_not_be_listed_is_an_error(project: Project, azurite: Azurite, container: str) -> None:
    on_blobs(project, azurite.connection_string, container)
    BlobServiceClient.from_connection_string(azurite.connection_string).create_container(container)
    permitted = AccountSasPermissions(read=True, write=True, list=True, create=True, add=True)
    token = with_sas(project, azurite, permitted, ResourceTypes(object=True))
    ended = project.run("check", "--json")
    assert project.run("run", "--once").code == 1
    assert ended.code == 1
    assert found(ended)["storage"]["severity"] == "ok", "documents may be read and written"
    assert wrong(ended) == {"listing": "error", "delivery": "error"}
    assert "Listing is not permitted" in found(ended)["listing"]["message"]
    assert "srt=co" in found(ended)["listing"]["fix"]
    assert token not in ended.out + ended.err


def test_storage_that_may_not_be_appended_to_is_an_error(project: Project, azurite: Azurite, container: str) -> None:
    on_blobs(project, azurite.connection_string, container)
    assert project.run("run", "--once").code == 0
    assert project.run("pause", "orders", "--yes").code == 0
    service = BlobServiceClient.from_connection_string(azurite.connection_string)
    before = service.get_blob_client(container, "audit/shop/orders.jsonl").download_blob().readall()
    assert "appending" not in found(project.run("check", "--json")), "with the account's key it is permitted"
    with_sas(project, azurite, AccountSasPermissions(read=True, list=True, create=True))
    ended = project.run("check", "--json")
    assert ended.code == 1
    assert found(ended)["appending"]["severity"] == "error"
    assert "sp=racwl" in found(ended)["appending"]["fix"]
    assert service.get_blob_client(container, "audit/shop/orders.jsonl").download_blob().readall() == before


def test_connections_that_do_not_leave_this_machine_are_well(
    project: Project, postgres_db: str, azurite: Azurite, container: str
) -> None:
    make_table(postgres_db)
    configure(project, postgres_db, "")
    both = found(project.run("check", "--json"))
    assert (both["tls"]["severity"], "does not leave" in both["tls"]["message"]) == ("ok", True)
    config = project.folder / "poller.toml"
    config.write_text(config.read_text().replace('store = "sql"', f'store = "blob"\ncontainer = "{container}"'))
    project.environ["AzureWebJobsStorage"] = azurite.connection_string
    (poller,) = project.run("check", "--json").json["pollers"]
    shown = [one["message"] for one in poller["findings"] if one["check"] == "tls"]
    assert shown == [
        "storage is reached over https, or on this machine",
        "the connection to the database does not leave this machine",
    ]


@pytest.fixture
def hidden(postgres_db: str, role: str) -> str:
    """The URL of a role from whom a policy hides most rows of `orders`; `own` is a view of the table's owner over it,
    `asking` one that asks as whoever reads it, `around` one of the owner over that."""
    make_table(postgres_db)
    execute(
        postgres_db,
        "alter table orders alter updated_at set not null",
        "create index on orders (updated_at, id)",
        f"create policy seldom on orders to {role} using (id < 3)",
        "alter table orders enable row level security",
        "create view own as select * from orders",
        "create view asking with (security_invoker = on) as select * from orders",
        "create view around as select * from asking",
        f"grant select on orders, own, asking, around to {role}",
    )
    return sa.make_url(postgres_db).set(username=role, password="geheim-7").render_as_string(False)


def over(project: Project, url: str, table: str = "", query: str = "") -> None:
    configure(project, url, table=table or "orders")
    text = (project.folder / "poller.toml").read_text()
    (project.folder / "poller.toml").write_text(
        text.replace('table = "orders"', f'query = "{query}"') if query else text
    )


def test_what_a_policy_hides_is_an_error_through_views_and_queries(
    project: Project, postgres_db: str, hidden: str
) -> None:
    ways = {"table": {"own": False, "around": False, "asking": True, "orders": True}}
    ways["query"] = {f"select * from {name}": hides for name, hides in ways["table"].items() if name != "around"}
    for kind, hides in ways.items():
        for name, expected in hides.items():
            over(project, hidden, **{kind: name})
            assert ("row_security" in wrong(project.run("check", "--json"))) is expected, name
    over(project, hidden)
    ended = project.run("check", "--json")
    assert ended.code == 1
    assert "orders (for reader_" in found(ended)["row_security"]["message"]
    fix(postgres_db, ended)
    assert "row_security" not in wrong(project.run("check", "--json"))


@pytest.mark.parametrize("columns", ["updated_at desc, id", "updated_at nulls first, id"])
def test_an_index_of_another_order_is_none(project: Project, postgres_db: str, columns: str) -> None:
    make_table(postgres_db)
    execute(
        postgres_db,
        "alter table orders alter updated_at set not null",
        "insert into orders select n, '2026-06-01' from generate_series(1001, 30000) n",
        f"create index on orders ({columns})",
        "analyze orders",
    )
    configure(project, postgres_db)
    first = project.run("check", "--json")
    assert wrong(first) == {"index": "warn", "plan": "warn"}
    assert "Sort by updated_at, id" in found(first)["plan"]["message"]
    fix(postgres_db, first)
    assert wrong(project.run("check", "--json")) == {}


def test_an_index_that_is_read_backwards_will_do(project: Project, postgres_db: str) -> None:
    make_table(postgres_db, 2_000)
    execute(
        postgres_db,
        "alter table orders alter updated_at set not null",
        "create index on orders (updated_at desc, id desc)",
        "analyze orders",
    )
    configure(project, postgres_db)
    assert wrong(project.run("check", "--json")) == {}


@pytest.fixture
def prepared_once(family_db: str) -> str:
    """A sound table in which a transaction can be left prepared."""
    make_table(family_db)
    execute(
        family_db,
        "alter table orders modify updated_at datetime(6) not null default now(6) on update now(6)",
        "create index c on orders (updated_at)",
    )
    return family_db


@each("name", ["'a\\\\b','it''s'", "X'00ff27',X'78',1", "X'0102ff',X'',7"])
def test_a_prepared_xa_transaction_is_ended_by_what_is_printed(project: Project, prepared_once: str, name: str) -> None:
    engine = sa.create_engine(prepared_once, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in ("start", "end", "prepare"):
            connection.exec_driver_sql(f"xa {statement} {name}")
            if statement == "start":
                connection.exec_driver_sql("insert into orders values (7000, now(6))")
        connection.invalidate()  # it stays prepared without its session
    configure(project, prepared_once, 'cursor_time_zone = "UTC"')
    ended = project.run("check", "--json")
    try:
        assert ended.code == 1
        with engine.connect() as connection:
            connection.exec_driver_sql(found(ended)["prepared"]["fix"].split(";")[0])
    finally:
        with engine.connect() as connection:
            left = connection.exec_driver_sql("xa recover").all()
            if left:
                connection.exec_driver_sql(f"xa rollback {name}")
    assert left == []


def findings(project: Project, check: str, code: int) -> list[dict[str, Any]]:
    ended = project.run("check", "orders", "--json")
    assert ended.code == code, ended.out + ended.err
    return [one for one in ended.json["pollers"][0]["findings"] if one["check"] == check]


def test_a_table_that_is_not_there_is_no_view(project: Project) -> None:
    project.configure("orders")
    project.execute("DROP TABLE orders")
    assert findings(project, "key", 1) == []
    assert any("orders" in one["message"] and one["severity"] == "error" for one in findings(project, "columns", 1))


def test_a_view_is_called_by_its_name_as_it_is_written(project: Project) -> None:
    project.configure("orders")
    project.execute("ALTER TABLE orders RENAME TO kept")
    project.execute("CREATE VIEW orders AS SELECT * FROM kept")
    (found,) = findings(project, "key", 0)
    assert found["message"].startswith("orders is a view: no constraint proves")


def test_a_writer_that_has_just_begun_is_a_warning_and_no_error(project: Project) -> None:
    project.configure("orders")
    project.insert(5)
    with closing(sqlite3.connect(project.folder / "shop.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        (found,) = findings(project, "bound", 0)
        writer.execute("ROLLBACK")
    assert found["severity"] == "warn"
    assert "a writer's open transaction" in found["message"]
    assert "behind the database's clock" not in found["message"], "nobody knows since when it has been open"


def test_an_import_that_fails_has_a_next_step(project: Project) -> None:
    for text, step in (
        ("import nothing_of_this_name\n", "nothing_of_this_name"),
        ("def other(batch): pass\n", "handle"),
        ("def handle(batch)\n", "handlers.py"),
    ):
        project.configure("orders", handlers=text)
        (found,) = findings(project, "handler", 1)
        assert step in found["fix"]


def test_a_handler_that_may_not_be_read_is_named_by_its_file(project: Project) -> None:
    project.configure("orders", handlers="def handle(batch): pass\n")
    project.insert(1)
    handlers = project.folder / "handlers.py"
    handlers.chmod(0)
    ended = subprocess.run(
        [*COMMAND, "run", "--once"],
        cwd=project.folder,
        preexec_fn=as_anybody,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert f"{handlers} cannot be read: Permission denied" in ended.stderr
