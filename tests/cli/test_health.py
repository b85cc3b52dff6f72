"""`poller health`: one line per poller, the worst first, a code for alerts; and `status` in the same words."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.console import Console, ran
from tests.cli.project import Project
from tests.support.schemas import validator
from tests.support.services import free_port


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def frozen(project: Project, *, days: int = 2) -> Console:
    """Its last commit is long ago, and rows came since."""
    console = ran(project)
    console.edit(checkpoint={"updated_at": ago(days * 86_400)})
    at = datetime.now(UTC) - timedelta(minutes=61, seconds=30)
    project.execute(f"INSERT INTO orders (id, updated_at) VALUES (100, '{at:%Y-%m-%d %H:%M:%S}')")
    return console


def test_all_is_well(project: Project) -> None:
    console = ran(project)
    ended = console.run("health")
    assert (ended.code, ended.out.split()) == (0, ["orders", "well"])
    ended = console.run("health", "--json")
    assert ended.code == 0
    validator("health").validate(ended.json)
    assert ended.json["healthy"] is True


def test_rows_that_nobody_delivers_are_an_alert(project: Project) -> None:
    console = frozen(project)
    ended = console.run("health", "orders", "--json")
    validator("health").validate(ended.json)
    (found,) = ended.json["pollers"]
    assert (ended.code, found["healthy"]) == (1, False)
    assert found["late_seconds"] == pytest.approx(3660, abs=60)
    line = console.run("health").out
    assert len(line.splitlines()) == 1
    assert line.startswith("orders  unhealthy  1 row has waited 1 h 1 min, and no worker took it. Next: ")
    assert f"poller -c {project.folder / 'poller.toml'} run orders --once" in line or "poller run orders --once" in line


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


def test_it_changes_no_poller(project: Project) -> None:
    console = frozen(project)
    before = console.document()
    console.run("health")
    console.run("health")
    assert console.document() == before
    assert console.names("health/") == [], "a time as cursor says itself since when its rows wait"


def test_a_pause_and_a_schedule_are_no_lateness(project: Project) -> None:
    console = frozen(project)
    console.done("pause", "orders", "--yes")
    assert "no worker took" not in console.run("status").out
    assert console.run("health").code == 0
    assert console.run("health", "--strict").code == 1
    console.done("resume", "orders", "--yes")
    later = datetime.now(UTC) + timedelta(hours=2)
    project.configure("orders", poller=f'schedule = "0 0 {later.hour} {later.day} * *"')
    console.edit(checkpoint={"updated_at": ago(600)})
    assert "no worker took" not in console.run("status").out
    assert console.run("health", "--strict").code == 0


def test_a_handler_that_keeps_failing_is_unhealthy(project: Project) -> None:
    """Each call fails for long enough: nothing waits for a schedule or for the end of a pause."""
    project.configure("orders", handlers="def handle(batch): raise OSError('the API is away')")
    project.insert(1)
    console = Console(project)
    assert console.run("run", "--once").code == 1
    console.edit(checkpoint={"updated_at": ago(86_400)})
    ended = console.run("health", "--json")
    (found,) = ended.json["pollers"]
    assert (ended.code, found["word"], found["severity"]) == (1, "failing", "unhealthy")
    assert "the API is away" not in ended.out
    assert "the API is away" in console.run("status").out


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
