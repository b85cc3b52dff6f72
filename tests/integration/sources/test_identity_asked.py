"""What a configuration leaves to the server is asked of it, and belongs to the fingerprint."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from poller import Poller, TickResult
from poller.errors import FingerprintMismatch, SourceUnavailable
from poller.model.document import State, decode, encode
from poller.ports import Found
from poller.sources import SqlSource
from poller.sources.postgresql import keys
from poller.sources.postgresql.keys import unqualified
from poller.stores import MemoryStore
from tests.integration.sources.tables import add_orders, execute, make_orders
from tests.support.cases import each
from tests.support.services import free_port

DOCUMENT = "state/shop/orders.json"


class Shop:
    """A poller whose processes may be configured otherwise each time."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.got: list[int] = []

    def tick(self, url: str | URL, **keys: Any) -> TickResult:
        defaults: dict[str, Any] = {
            "table": None if "query" in keys else "orders",
            "cursor_column": "updated_at", "cursor_time_zone": "UTC", "pk_columns": ["id"], "bound": "none",
        }  # fmt: skip
        source = SqlSource(url, **(defaults | keys))
        poller = Poller("orders", app_name="shop", store=self.store, source=source, observers=[])
        with contextlib.closing(poller):
            return poller.tick(lambda batch: self.got.extend(row["id"] for row in batch))

    @property
    def state(self) -> State:
        found = self.store.read(DOCUMENT)
        assert isinstance(found, Found)
        return decode(found.body, location="here")

    def edit(self, **changes: Any) -> None:
        found = self.store.read(DOCUMENT)
        assert isinstance(found, Found)
        self.store.write(DOCUMENT, encode(self.state.model_copy(update=changes)), if_tag=found.tag)


@pytest.fixture
def schemas(postgres_db: str) -> str:
    """Tables `orders` in the schemas ta and tb, ids from 1 and from 101; the server's URL."""
    for first, schema in ((1, "ta"), (101, "tb")):
        execute(postgres_db, f"create schema {schema}")
        make_orders(path(postgres_db, schema).render_as_string(hide_password=False), [])
        stamps = ["2026-01-01 00:00:00", "2026-01-02 00:00:00"]
        add_orders(path(postgres_db, schema).render_as_string(hide_password=False), stamps, first=first)
    return postgres_db


def path(url: str, schemas: str) -> URL:
    return make_url(url).update_query_dict({"options": f"-csearch_path={schemas}"})


@pytest.mark.parametrize("keys", [{}, {"query": "select * from Orders o"}], ids=["table", "query"])
def test_another_search_path_is_another_source(schemas: str, keys: dict[str, str]) -> None:
    shop = Shop()
    assert shop.tick(path(schemas, "ta"), **keys).rows == 2
    assert shop.state.source is not None
    assert shop.state.source["schema"] == "ta"
    with pytest.raises(FingerprintMismatch, match="schema: ta -> tb"):
        shop.tick(path(schemas, "tb"), **keys)
    assert shop.got == [1, 2]
    assert shop.tick(path(schemas, "nowhere,ta,tb"), **keys).outcome == "idle"  # the same table by another way


def test_a_document_from_before_takes_what_the_server_says(schemas: str) -> None:
    shop = Shop()
    shop.tick(path(schemas, "ta"))
    source = SqlSource(path(schemas, "ta"), table="orders", cursor_column="updated_at", pk_columns=["id"])
    unasked = source.describe()
    assert unasked.schema_name is None
    shop.edit(source=unasked.as_json(), source_fingerprint=unasked.fingerprint())
    add_orders(path(schemas, "ta").render_as_string(hide_password=False), ["2026-01-03 00:00:00"], first=3)
    assert shop.tick(path(schemas, "ta")).rows == 1
    assert shop.state.source is not None
    assert shop.state.source["schema"] == "ta"
    with pytest.raises(FingerprintMismatch):
        shop.tick(path(schemas, "tb"))


def undescribed(shop: Shop) -> None:
    """The document as the specification shows it: a fingerprint, and no `source`."""
    found = shop.store.read(DOCUMENT)
    assert isinstance(found, Found)
    document = json.loads(found.body)
    del document["source"]
    shop.store.write(DOCUMENT, json.dumps(document).encode(), if_tag=found.tag)


@pytest.mark.guarantee(
    "One worker at a time",
    "A document with a fingerprint and without `source`, as the specification shows it, is continued on the source "
    "of that fingerprint, and described from then on",
)
@pytest.mark.parametrize("database", ["postgresql", "sqlite"])
def test_a_document_that_describes_no_source_is_continued(
    request: pytest.FixtureRequest, tmp_path: Path, database: str
) -> None:
    """By its fingerprint, for which the server is asked where the configuration leaves it something."""
    shop, url = Shop(), make_url(f"sqlite:///{tmp_path}/shop.db")
    if database == "postgresql":
        url = path(request.getfixturevalue("schemas"), "ta")
    else:
        make_orders(str(url), [])
        add_orders(str(url), ["2026-01-01 00:00:00", "2026-01-02 00:00:00"], first=1)
    text = url.render_as_string(hide_password=False)
    assert shop.tick(url).rows == 2
    fingerprint = shop.state.source_fingerprint
    undescribed(shop)
    assert shop.tick(url).outcome == "idle"  # another process
    add_orders(text, ["2026-01-03 00:00:00"], first=3)
    assert shop.tick(url).rows == 1
    assert shop.got == [1, 2, 3]
    assert shop.state.source_fingerprint == fingerprint
    assert shop.state.source is not None, "it is described from then on"


def test_another_sources_fingerprint_alone_is_refused(schemas: str) -> None:
    shop = Shop()
    shop.tick(path(schemas, "ta"))
    undescribed(shop)
    with pytest.raises(FingerprintMismatch, match="not described"):
        shop.tick(path(schemas, "tb"))


def test_a_fingerprint_is_not_judged_without_the_server(schemas: str) -> None:
    shop = Shop()
    shop.tick(path(schemas, "ta"))
    undescribed(shop)
    away = path(schemas, "ta").set(port=free_port())
    with pytest.raises(SourceUnavailable):
        shop.tick(away)


def test_a_schema_that_is_named_is_not_asked_for(schemas: str) -> None:
    shop = Shop()
    shop.tick(path(schemas, "tb"), schema="ta")
    assert shop.tick(path(schemas, "ta"), schema="ta").outcome == "idle"
    assert shop.tick(path(schemas, "ta")).outcome == "idle"  # the same table, found by its path


@pytest.mark.parametrize(
    "query",
    [
        "with recent as (select * from ta.orders) select * from recent",
        "select *, jsonb_build_array(id) as listed from ta.orders where pg_column_size(status) > 0",
    ],
    ids=["with", "functions of PostgreSQL"],
)
def test_a_path_that_a_query_does_not_use_says_nothing(schemas: str, query: str) -> None:
    shop = Shop()
    assert shop.tick(path(schemas, "ta"), query=query).rows == 2
    assert shop.tick(path(schemas, "tb,ta"), query=query).outcome == "idle"


def test_a_function_of_a_schema_of_the_path_counts(schemas: str) -> None:
    for schema in ("ta", "tb"):
        execute(schemas, f"create function {schema}.listed(integer) returns boolean immutable return true")
    shop, query = Shop(), "select * from ta.orders where listed(id)"
    assert shop.tick(path(schemas, "ta"), query=query).rows == 2
    with pytest.raises(FingerprintMismatch, match="schema: ta -> tb"):
        shop.tick(path(schemas, "tb"), query=query)


def test_the_server_is_asked_once_per_connection(schemas: str) -> None:
    engine = sa.create_engine(path(schemas, "ta"), poolclass=sa.NullPool)
    asked: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda c, cursor, statement, *rest: asked.append(statement))
    source = SqlSource(engine, table="orders", cursor_column="updated_at", pk_columns=["id"], bound="none")
    for times in (1, 2):
        with contextlib.closing(source):
            source.page(None, 10)
            source.page(None, 10)
        assert sum("SELECT current_database(), n.nspname" in statement for statement in asked) == times


def test_a_server_without_such_an_answer_is_read_as_configured(schemas: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that only speak PostgreSQL's protocol; no such server runs here."""
    monkeypatch.setattr(keys, "TABLE", "select no_such_function(:name)")
    shop = Shop()
    assert shop.tick(path(schemas, "ta")).rows == 2
    assert shop.state.source is not None
    assert shop.state.source["schema"] is None


def test_an_address_beside_the_host_is_the_host(postgres_db: str) -> None:
    """`hostaddr`: where the driver connects to. Documents from before hold the name."""
    make_orders(postgres_db, ["2026-01-01 00:00:00"])
    url = make_url(postgres_db).set(host="db.invalid").update_query_dict({"hostaddr": "127.0.0.1"})
    shop = Shop()
    shop.tick(url)
    source = shop.state.source
    assert source is not None
    assert source["database"]["host"] == "127.0.0.1"
    before = SqlSource(url, table="orders", cursor_column="updated_at", pk_columns=["id"]).describe()
    assert before.database.host == "db.invalid"
    shop.edit(source=before.as_json(), source_fingerprint=before.fingerprint())
    assert shop.tick(url).outcome == "idle"
    elsewhere = before.resolved({"database.host": "10.0.0.9", "schema": "public"})
    shop.edit(source=elsewhere.as_json(), source_fingerprint=elsewhere.fingerprint())
    with pytest.raises(FingerprintMismatch, match=r"database\.host: 10\.0\.0\.9 -> 127\.0\.0\.1"):
        shop.tick(url)


def test_a_search_path_that_changes_under_a_poller_stops_it(schemas: str) -> None:
    source = SqlSource(make_url(schemas), table="orders", cursor_column="updated_at", pk_columns=["id"], bound="none")
    database = make_url(schemas).database
    execute(schemas, f'alter database "{database}" set search_path = ta')
    poller = Poller("orders", app_name="shop", store=MemoryStore(), source=source, observers=[])
    got: list[int] = []
    with contextlib.closing(poller):
        poller.tick(lambda batch: got.extend(row["id"] for row in batch))
        execute(schemas, f'alter database "{database}" set search_path = tb')
        source.close()  # as when the connection breaks
        with pytest.raises(FingerprintMismatch, match="schema: ta -> tb"):
            poller.tick(lambda batch: got.extend(row["id"] for row in batch))
    assert got == [1, 2]


def test_a_database_that_the_url_does_not_name_is_asked_for(
    mariadb_server: Any, mariadb_db: str, tmp_path: Path
) -> None:
    """By an option file, as `read_default_file` has it."""
    one, other = mariadb_db, mariadb_server.new_database()
    try:
        shop = Shop()
        for url, file in ((one, "one.cnf"), (other, "other.cnf")):
            make_orders(url, ["2026-01-01 00:00:00"])
            at = make_url(url)
            (tmp_path / file).write_text(f"[client]\nhost={at.host}\nport={at.port}\ndatabase={at.database}\n")
        bare = URL.create("mysql+pymysql", username=make_url(one).username)
        by = [bare.update_query_dict({"read_default_file": str(tmp_path / f)}) for f in ("one.cnf", "other.cnf")]
        assert shop.tick(by[0]).rows == 1
        assert shop.state.source is not None
        assert shop.state.source["database"]["database"] == make_url(one).database
        assert shop.state.source["database"]["port"] == make_url(one).port
        with pytest.raises(FingerprintMismatch, match=r"database\.database"):
            shop.tick(by[1])
    finally:
        mariadb_server.drop_database(other)


def test_a_service_file_names_server_and_database(
    postgres_db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_orders(postgres_db, ["2026-01-01 00:00:00"])
    at = make_url(postgres_db)
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    rest = f"dbname={at.database}\nuser={at.username}\n"
    (tmp_path / "services").write_text(
        f"[a]\nhost={at.host}\nport={at.port}\n{rest}[b]\nhost={at.host},{at.host}\nport=1,{at.port}\n{rest}"
    )
    for service, host, port in (
        ("a", at.host, at.port),
        ("b", f"{at.host}:1,{at.host}:{at.port}", 5432),  # one source, whichever of them answers
    ):
        shop = Shop()
        shop.tick(f"postgresql+psycopg:///?service={service}")
        assert shop.state.source is not None
        assert shop.state.source["database"] == {
            "dialect": "postgresql", "host": host, "port": port, "database": at.database
        }  # fmt: skip


@each(
    ("query", "names"),
    [
        ("select * from a.b join c.d using (id)", ((), ())),
        ('select * from Orders o join "Lines" l on l.id = o.id', (('"Lines"', '"orders"'), ())),
        ("with orders as (select * from orders) select * from orders", (('"orders"',), ())),
        ("select * from Ärger", (('"Ärger"',), ())),
        ("select id, max(at) from a.b group by id", ((), ())),
        ("select * from a.b where Allowed(id)", ((), ("allowed",))),
        ("select * from a.everything()", None),
        ("select from where", None),
    ],
)
def test_the_names_of_a_query_that_the_search_path_decides(query: str, names: tuple[Any, Any] | None) -> None:
    assert unqualified(query) == names
