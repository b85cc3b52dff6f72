"""A sink with one of its guards taken away: what must break then."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, text

from poller.sinks import ledger, statements


def without_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger is read and written, and nobody waits for anybody."""

    def enter(_: object, connection: Connection, names: statements.Names, token: int, **_how: bool) -> int:
        connection.execute(text("SELECT token FROM poller_fence WHERE app = :app"), {"app": names["app"]}).all()
        return token

    for fencing in (statements.PostgreSqlFencing, statements.MySqlFencing, statements.SqliteFencing):
        monkeypatch.setattr(fencing, "enter", enter)


def without_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fence stands, and nothing is remembered."""
    monkeypatch.setattr(ledger, "plan", lambda _entries, keys, **_: ledger.FencedPlan(tuple(range(len(keys)))))
