"""A database per tenant: the dispatcher asks more databases of one server than that takes connections."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from poller import Poller
from poller.dispatch import probes
from poller.dispatch.probes import Answer, DatabaseProber, Question
from poller.model.document import decode
from poller.ports import Found
from poller.runtime import SystemRuntime
from poller.stores import MemoryStore
from tests.integration.sources.tables import execute
from tests.integration.sources.tenants import MOST, Tenants
from tests.support.services import wait_until


class Asked:
    """A poller for each tenant, which has read its rows and closed its connections; and a dispatcher's prober."""

    def __init__(self, tenants: Tenants) -> None:
        self.tenants = tenants
        store = MemoryStore()
        self.pollers: dict[str, Poller] = {}
        for at in range(len(tenants.urls)):
            source = tenants.source(at)
            poller = Poller(f"t{at}", source=source, store=store, app_name="shop", observers=())
            result = poller.tick(lambda batch: None)
            assert result.outcome in ("delivered", "idle"), result
            source.close()
            self.pollers[poller.name] = poller
        self.questions = []
        for name, poller in self.pollers.items():
            found = store.read(f"state/shop/{name}.json")
            assert isinstance(found, Found)
            self.questions.append(Question(name, poller.source, decode(found.body, location=name)))
        self.prober = DatabaseProber(SystemRuntime())

    def ask(self) -> dict[str, Answer]:
        return dict(self.prober.ask(self.questions))

    def settled(self) -> dict[str, Answer]:
        """The answers, once the prober has seen enough to know a bound."""
        answers = self.ask()
        for _ in range(20):
            if "unknown" not in answers.values():
                break
            threading.Event().wait(0.15)
            answers = self.ask()
        return answers

    def add(self, at: datetime) -> None:
        """One more row for each tenant."""
        for url in self.tenants.urls:
            stamp = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}" + "+00" * (self.tenants.family == "postgresql")
            execute(url, f"insert into orders select max(id) + 1, '{stamp}', 'open', 1 from orders")

    def close(self) -> None:
        self.prober.close()
        for poller in self.pollers.values():
            poller.close()


def asked(stack: ExitStack, tenants: Tenants) -> Asked:
    made = Asked(tenants)
    stack.callback(made.close)
    return made


def test_more_databases_than_connections_are_all_asked(tenants: Tenants, stack: ExitStack) -> None:
    """And leave half of them to others."""
    made = asked(stack, tenants)
    assert set(made.settled().values()) == {"none"}
    for _ in range(3):
        assert set(made.ask().values()) == {"none"}
        assert len(tenants.sessions()) <= MOST // 2
    made.add(datetime.now(UTC) - timedelta(minutes=1))
    assert set(made.settled().values()) == {"rows"}


def test_a_users_limit_holds_over_all_databases_asked(limited: Tenants, stack: ExitStack) -> None:
    made = asked(stack, limited)
    assert set(made.settled().values()) == {"none"}
    for _ in range(3):
        assert set(made.ask().values()) == {"none"}
        assert len(limited.sessions()) <= 2
    made.add(datetime.now(UTC) - timedelta(minutes=1))
    assert set(made.settled().values()) == {"rows"}


def test_a_closed_connection_loses_no_samples(tenants: Tenants, stack: ExitStack) -> None:
    """A transaction that began later than the samples hides no older row, though each database's connection is closed
    for another in every round."""
    tenants.do(f"revoke pg_read_all_stats from {tenants.user}")
    made = asked(stack, tenants)
    assert set(made.settled().values()) == {"none"}
    made.add(datetime.now(UTC))
    wait_until(lambda: set(made.ask().values()) == {"rows"}, "samples that began later than the rows")
    for url in tenants.urls[: MOST // 2]:
        writer = stack.enter_context(sa.create_engine(url, poolclass=sa.NullPool).connect())
        writer.execute(sa.text("select 1"))
    for _ in range(3):
        assert set(made.ask().values()) == {"rows"}


def test_sessions_that_ended_at_rest_fail_no_look(limited: Tenants, stack: ExitStack) -> None:
    made = asked(stack, limited)
    assert set(made.settled().values()) == {"none"}
    for _ in range(2):
        limited.end()
        assert set(made.settled().values()) == {"none"}


def test_who_finds_no_connection_is_asked_later_and_then_sent(
    limited: Tenants, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No poller waits for ever: its message makes a worker look."""
    monkeypatch.setattr(probes, "LONGEST", 0.3)
    made = asked(stack, limited)
    with ExitStack() as using:
        for at in range(2):
            busy = limited.source(at)
            using.callback(busy.close)
            using.enter_context(busy._session.database.lasting())
            busy.page(None, 4)
        first, second = made.ask(), made.ask()
    assert (set(first.values()), set(second.values())) == ({"later"}, {"failed"})
    wait_until(lambda: set(made.ask().values()) == {"none"}, "connections that were given back")
