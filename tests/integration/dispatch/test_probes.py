"""Whether rows wait, asked of real databases: with the types from the documents, below one bound, in little time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from poller import Poller
from poller.dispatch import probes
from poller.dispatch.probes import Answer, DatabaseProber, Question
from poller.errors import SourceError
from poller.ports import Found
from poller.runtime import SystemRuntime
from poller.sources import SqlSource
from poller.sources import table as learned
from poller.sources.postgresql import bound as postgresql_bound
from poller.sources.table import inspect_source
from poller.stores import MemoryStore
from poller.tick import result as results
from tests.integration.bounds.tables import session
from tests.integration.sources.tables import TIMESTAMP, execute, family

NAMES = [f"t{number}" for number in range(6)]


class Tables:
    """A poller for each of some tables of one database."""

    def __init__(self, url: str, names: list[str] = NAMES, *, rows: int = 1) -> None:
        self.url = url
        self.store = MemoryStore()
        self.pollers: dict[str, Poller] = {}
        kind = TIMESTAMP[family(url)]
        for name in names:
            execute(url, f"create table {name} (id integer not null primary key, updated_at {kind} not null)")
            for row in range(rows):
                self.add(name, row)
            self.pollers[name] = Poller(name, source=self.source(name), store=self.store, app_name="shop", observers=())
        self.prober = DatabaseProber(SystemRuntime())

    def source(self, name: str, **options: Any) -> SqlSource:
        given = {"cursor_column": "updated_at", "cursor_time_zone": "UTC", "pk_columns": ["id"], **options}
        return SqlSource(self.url, table=name, **given)

    def add(self, name: str, row: int, at: str = "2026-01-02 03:04:05") -> None:
        execute(self.url, f"insert into {name} values ({row}, '{at}')")

    def drained(self) -> Tables:
        for poller in self.pollers.values():
            result = poller.tick(lambda batch: None)
            assert result.outcome in ("delivered", "idle"), result
        return self

    def question(self, name: str, source: SqlSource | None = None) -> Question:
        from poller.model.document import decode

        found = self.store.read(f"state/shop/{name}.json")
        assert isinstance(found, Found)
        state = decode(found.body, location=name)
        return Question(name, source or self.pollers[name].source, state)

    def ask(self, *names: str) -> dict[str, Answer]:
        return dict(self.prober.ask([self.question(name) for name in names or self.pollers]))

    def close(self) -> None:
        self.prober.close()
        for poller in self.pollers.values():
            poller.close()


@pytest.fixture
def tables(any_db: str) -> Iterator[Tables]:
    made = Tables(any_db)
    yield made
    made.close()


def settled(tables: Tables) -> dict[str, Answer]:
    """The answers, once the prober's process has seen enough to know a bound."""
    answers = tables.ask()
    for _ in range(20):
        if "unknown" not in answers.values():
            break
        threading.Event().wait(0.15)
        answers = tables.ask()
    return answers


def test_rows_are_found_where_they_wait(tables: Tables) -> None:
    tables.drained()
    assert set(settled(tables).values()) == {"none"}
    tables.add("t1", 7, "2026-01-02 03:04:06")
    tables.add("t4", 7, "2026-01-02 03:04:05")  # inside the tie
    assert settled(tables) == {name: "rows" if name in ("t1", "t4") else "none" for name in NAMES}


@pytest.mark.parametrize(("waited", "answer"), [(0.0, "held"), (3600.0, "none")], ids=["from before", "since then"])
def test_rows_above_a_bound_that_is_held_are_told_from_none(
    postgres_db: str, waited: float, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the transaction began after the poller fell due, all rows of that moment were found."""
    monkeypatch.setattr(results, "HELD_FOR", 0.0)  # no test waits for a minute
    monkeypatch.setattr(postgresql_bound, "SHOWS_HOLDER_AFTER", 0.0)
    tables = Tables(postgres_db, ["t0"]).drained()
    question = replace(tables.question("t0"), waited=waited)
    with session(postgres_db, "begin", "select 1"):
        assert tables.prober.ask([question]) == {"t0": "none"}
        execute(postgres_db, "insert into t0 values (7, clock_timestamp())")
        assert tables.prober.ask([question]) == {"t0": answer}
    tables.close()


def test_nothing_is_inspected_with_types_from_documents(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.drained()

    def inspects(*_: object) -> None:
        raise AssertionError("inspected")

    monkeypatch.setattr(learned, "inspect_source", inspects)
    assert set(settled(tables).values()) == {"none"}


def test_a_document_without_types_is_inspected_once(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.drained()
    question = tables.question("t0")
    old = Question("t0", question.source, question.state.model_copy(update={"facts": None}))
    counted: list[str] = []

    def counting(database: Any, options: Any, *others: Any) -> Any:
        counted.append(options.table)
        return inspect_source(database, options, *others)

    monkeypatch.setattr(learned, "inspect_source", counting)
    for _ in range(3):
        assert tables.prober.ask([old])["t0"] in ("none", "unknown")
    assert counted == ["t0"]


def test_a_table_that_is_gone_takes_no_other_along(tables: Tables) -> None:
    tables.drained()
    settled(tables)
    execute(tables.url, "drop table t0")
    tables.add("t1", 7, "2026-01-02 03:04:06")
    answers = tables.ask()
    assert answers["t0"] == "failed"
    assert answers["t1"] == "rows"
    assert answers["t5"] == "none"


def test_hostile_types_in_a_document_are_not_run(tables: Tables) -> None:
    tables.drained()
    question = tables.question("t0")
    columns = {"updated_at": {"family": "timestamp", "type": "int) or 1=1 --"}, "id": {"family": "integer"}}
    hostile = Question("t0", question.source, question.state.model_copy(update={"facts": {"columns": columns}}))
    assert tables.prober.ask([hostile])["t0"] in ("none", "unknown")


def test_rows_of_an_open_transaction_are_not_found(postgres_db: str) -> None:
    tables = Tables(postgres_db, ["t0"]).drained()
    settled(tables)
    engine = sa.create_engine(postgres_db, poolclass=sa.NullPool)
    with engine.connect() as writer:
        writer.execute(sa.text("select 1"))
        execute(postgres_db, "insert into t0 values (9, now())")
        assert tables.ask() == {"t0": "none"}
    threading.Event().wait(1.2)  # the margin
    assert settled(tables) == {"t0": "rows"}
    tables.close()


def test_a_locked_table_holds_up_no_other_for_long(postgres_db: str) -> None:
    tables = Tables(postgres_db).drained()
    settled(tables)
    engine = sa.create_engine(postgres_db, poolclass=sa.NullPool)
    with engine.connect() as writer:
        writer.execute(sa.text("lock table t2 in access exclusive mode"))
        answers = tables.ask()
    assert answers["t2"] == "failed"
    assert {answers[name] for name in NAMES if name != "t2"} == {"none"}
    tables.close()


def test_a_database_out_of_reach_fails_all_of_its_pollers_at_once(tmp_path: Any) -> None:
    tables = Tables(f"sqlite:///{tmp_path / 'shop.db'}").drained()
    away = SqlSource(
        "postgresql+psycopg://nobody:secret@127.0.0.1:9/shop", table="t", cursor_column="updated_at", pk_columns=["id"]
    )
    questions = [*map(tables.question, NAMES)]
    questions += [Question(f"away-{n}", away, questions[0].state) for n in range(50)]
    answers = tables.prober.ask(questions)
    assert [answers[f"away-{n}"] for n in range(50)] == ["failed"] * probes.TOLD + ["away"] * (50 - probes.TOLD)
    assert {answers[name] for name in NAMES} == {"none"}
    tables.close()


def test_who_is_not_reached_in_time_is_asked_later(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = Tables(f"sqlite:///{tmp_path / 'shop.db'}").drained()
    monkeypatch.setattr(probes, "LONGEST", 0.0)
    assert set(tables.ask().values()) == {"later"}
    tables.close()


def test_an_empty_table_without_types_has_no_rows(tmp_path: Any) -> None:
    tables = Tables(f"sqlite:///{tmp_path / 'shop.db'}", ["t0"], rows=0).drained()
    assert tables.ask() == {"t0": "none"}
    tables.add("t0", 1)
    assert tables.ask() == {"t0": "rows"}
    tables.close()


def test_an_empty_table_is_not_inspected(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = Tables(f"sqlite:///{tmp_path / 'shop.db'}", ["t0"], rows=0).drained()

    def inspects(*_: object) -> None:
        raise AssertionError("inspected")

    monkeypatch.setattr(learned, "inspect_source", inspects)
    assert [tables.ask() for _ in range(3)] == [{"t0": "none"}] * 3
    tables.close()


def test_the_same_answer_as_a_page(tables: Tables) -> None:
    """Whatever order they stand in, and wherever the checkpoint is."""
    for row, second in enumerate(["05", "05", "06", "06", "07"], start=2):
        tables.add("t0", row, f"2026-01-02 03:04:{second}")
    source = tables.pollers["t0"].source
    page = source.page(None, 100)
    tables.drained()
    question = tables.question("t0")
    settled(tables)
    for cursor in page.cursors:
        checkpoint = question.state.checkpoint.model_copy(update={"cursor": cursor})
        state = question.state.model_copy(update={"checkpoint": checkpoint})
        try:
            expected = "rows" if source.page(cursor, 1).rows else "none"
        except SourceError:  # pragma: no cover - a server that is too busy
            continue
        assert tables.prober.ask([Question("t0", source, state)]) == {"t0": expected}
