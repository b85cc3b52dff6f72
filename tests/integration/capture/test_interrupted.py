"""An installation that fails at any of its statements, and two at once: all of it, or nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy.engine import Connection, CursorResult

from poller.databases import CapturePlan
from poller.databases.capture import run
from tests.integration.capture.captured import Captured

FAMILIES = {"postgres_db": "postgresql", "mariadb_db": "mysql", "sqlite_url": "sqlite"}


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Iterator[tuple[Captured, str]]:
    made = Captured(request.getfixturevalue(request.param))
    made.run("CREATE TABLE orders (id int PRIMARY KEY NOT NULL, note varchar(40))")
    yield made, FAMILIES[request.param]
    made.close()


def everything(made: Captured, family: str) -> list[Any]:
    if family == "sqlite":
        return made.run("SELECT * FROM sqlite_schema")
    if family == "mysql":
        return [made.run("SHOW TABLES"), made.run("SELECT trigger_name FROM information_schema.triggers")]
    relations = made.run("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1")
    return [relations, made.run("SELECT tgname FROM pg_trigger"), made.run("SELECT proname FROM pg_proc ORDER BY 1")]


class Broken(Exception):
    """Raised in the place of what a statement does."""


def test_whatever_fails_nothing_is_installed_half(
    family: tuple[Captured, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, name = family
    before = everything(made, name)
    statements = made.capture().plan().statements
    for last in range(len(statements)):
        met: list[str] = []

        def failing(connection: Connection, text: str, last: int = last, met: list[str] = met) -> CursorResult[Any]:
            if text in statements:
                met.append(text)
                if len(met) == last + 1:
                    raise Broken
            return run(connection, text)

        with monkeypatch.context() as patched:
            patched.setattr(f"poller.databases.{name}.capture.run", failing)
            with pytest.raises(Broken):
                made.install()
        assert everything(made, name) == before, statements[last]
    made.install()
    made.run("INSERT INTO orders VALUES (1, 'a')")
    assert made.holds().changes == 1


def test_two_at_once_install_it_once(family: tuple[Captured, str]) -> None:
    made, _ = family
    plans: list[CapturePlan] = []
    threads = [threading.Thread(target=lambda: plans.append(made.capture().install())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(plan.standing for plan in plans) == ["absent", "installed", "installed", "installed"]
    made.run("INSERT INTO orders VALUES (1, 'a')")
    assert made.ops() == "I"
