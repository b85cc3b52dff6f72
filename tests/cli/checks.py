"""`poller check` over a real database: the findings, and the fixes it proposes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from tests.cli.project import Ended
from tests.integration.sources.tables import TIMESTAMP, execute, family, touch_at_updates
from tests.support.schemas import validator

STATEMENTS = ("CREATE", "ALTER", "UPDATE", "GRANT", "ROLLBACK", "XA ROLLBACK", "ANALYZE")


def make_table(url: str, rows: int = 20, *, primary: bool = True) -> None:
    """`orders(id, updated_at)`, nullable, without an index on the cursor; old rows, one a second."""
    kind = TIMESTAMP[family(url)]
    key = " primary key" if primary else ""
    old = datetime(2026, 1, 1, tzinfo=UTC)
    execute(
        url,
        f"create table orders (id integer not null{key}, updated_at {kind} null)",
        "insert into orders values (:id, :at)",
        rows=[{"id": n, "at": f"{old + timedelta(seconds=n):%Y-%m-%d %H:%M:%S}"} for n in range(1, rows + 1)],
    )
    touch_at_updates(url)


def found(ended: Ended) -> dict[str, dict[str, Any]]:
    """The one poller's findings by what was looked at; the worst where there are several."""
    validator("check").validate(ended.json)
    (poller,) = ended.json["pollers"]
    order = ["ok", "warn", "error"]
    worst: dict[str, dict[str, Any]] = {}
    for one in sorted(poller["findings"], key=lambda f: order.index(f["severity"])):
        worst[one["check"]] = one
    return worst


def wrong(ended: Ended) -> dict[str, str]:
    """What is not well: check and severity."""
    return {name: one["severity"] for name, one in found(ended).items() if one["severity"] != "ok"}


def fix(url: str, ended: Ended) -> list[str]:
    """Run every statement that was proposed, as the database's owner, each once."""
    proposed = [one["fix"] for one in found(ended).values() if (one["fix"] or "").startswith(STATEMENTS)]
    done: list[str] = []
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        for text in proposed:
            for statement in text.replace("(or COMMIT)", "").split(";"):
                if statement.strip() and statement.strip() not in done:
                    connection.execute(sa.text(statement.strip()))
                    done.append(statement.strip())
    return done
