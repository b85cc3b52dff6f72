"""The files that docker-compose.yml mounts, run against the same servers without Docker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine, text

from tests.support.azurite import Azurite
from tests.support.services import REPOSITORY

EXAMPLE = REPOSITORY / "examples" / "compose"


def deliver(database: str, azurite: Azurite) -> list[str]:
    """One `poller run --until-idle` in the example's directory; the ids that its handler printed."""
    done = subprocess.run(
        [sys.executable, "-m", "poller_cli.main", "run", "--until-idle"],
        cwd=EXAMPLE,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "cli")]),
            "ORDERS_DB_URL": database,
            "AzureWebJobsStorage": azurite.connection_string,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(r"^order (\d+): ", done.stdout, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def azurite() -> Iterator[Azurite]:
    """One of its own: the example names its container, and so do others."""
    with Azurite.start() as running:
        yield running


def test_the_compose_example_delivers_each_order_once(postgres_db: str, azurite: Azurite) -> None:
    engine = create_engine(postgres_db)
    try:
        with engine.begin() as connection:
            connection.execute(text((EXAMPLE / "orders.sql").read_text().replace(":", r"\:")))
            # As if they had been there for a while: what is younger than `settle` is left for a later tick.
            connection.execute(text("ALTER TABLE orders DISABLE TRIGGER USER"))
            connection.execute(text("UPDATE orders SET updated_at = now() - interval '1 hour'"))
        assert deliver(postgres_db, azurite) == [str(number) for number in range(1, 1001)]
        with engine.begin() as connection:
            late = "now() - interval '1 minute'"
            connection.execute(text(f"UPDATE orders SET status = 'paid', updated_at = {late} WHERE id = 7"))
        assert deliver(postgres_db, azurite) == ["7"]
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE orders ENABLE TRIGGER USER"))
            connection.execute(text("UPDATE orders SET status = 'paid' WHERE id = 8"))
            young = "SELECT now() - updated_at < interval '1 minute' FROM orders WHERE id = 8"
            assert connection.execute(text(young)).scalar_one()
    finally:
        engine.dispose()
