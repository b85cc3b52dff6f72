"""`poller health`: one line per poller, the worst first, a code for alerts; and `status` in the same words."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.console import Console, ran
from tests.cli.project import Project
from tests.support.services import free_port


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def test_a_wrong_configuration_exits_2(project: Project) -> None:
    console = ran(project)
    assert console.run("health", "nobody").code == 2
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace("sqlite:///shop.db", "nothing://CANARY"))
    ended = console.run("health")
    assert ended.code == 2
    assert "orders  unhealthy  Its configuration cannot be used. Next: poller" in ended.out
    assert "CANARY" not in ended.out + ended.err
    project.write("app_name = 5\n")
    assert console.run("health").code == 2


def test_a_store_that_is_away_exits_1_and_says_so(project: Project) -> None:
    console = ran(project)
    text = (project.folder / "poller.toml").read_text()
    url = f"postgresql+psycopg://ada:CANARY@127.0.0.1:{free_port()}/state"
    project.write(text.replace('store = "sql"', f'store = "sql"\nurl = "{url}"'))
    ended = console.run("health")
    assert ended.code == 1
    assert "The state store cannot be reached." in ended.out
    assert "CANARY" not in ended.out + ended.err


def test_numbers_are_late_by_what_looks_remember(project: Project) -> None:
    """A number does not say when its row came."""
    project.configure("orders")
    text = (project.folder / "poller.toml").read_text()
    for line in ('cursor_column = "updated_at"\n', 'cursor_time_zone = "UTC"\n'):
        text = text.replace(line, "")
    project.write(text.replace("pk_columns", 'cursor_column = "id"\ncursor_kind = "integer+pk"\npk_columns'))
    console = Console(project)
    project.insert(5)
    assert console.run("run", "--once").code == 0
    console.edit(checkpoint={"updated_at": ago(86_400)})
    project.execute("INSERT INTO orders (id, updated_at) VALUES (100, '2026-01-01 00:00:00')")
    (status,) = console.run("status", "--json").json["pollers"]
    assert (status["word"], status["severity"]) == ("late", "warning"), "it may have come just now"
    assert console.run("health").code == 0
    seen = console.state("health/shop.json")
    assert seen["seen"]["orders"].keys() == {"waiting_since"}
    seen["seen"]["orders"]["waiting_since"] = ago(600)
    console.put(json.dumps(seen), "health/shop.json")
    (status,) = console.run("status", "--json").json["pollers"]
    assert (status["word"], status["severity"]) == ("late", "unhealthy")
    assert status["late_seconds"] == pytest.approx(600, abs=60)
    assert console.run("health").code == 1
