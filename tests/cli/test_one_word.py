"""States that people meet, made with real documents and a real table: each place says the same word and severity."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from poller.app import load_app
from poller.http.hosts import Hosts
from poller.http.keys import Keys
from poller.http.messages import Request
from poller.http.serving import endpoints_of
from poller.model.view import title
from tests.cli.console import STATE, Console, at_work, changed, deleted, ran
from tests.cli.project import Project

KEY = "a-key-for-those-who-look"
ERROR = {"type": "ValueError", "message": "no customer"}
LATE = 1200.0


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def waiting(console: Console, seconds: float = LATE) -> None:
    """A row came so long ago, and the last commit was before it."""
    console.edit(checkpoint={"updated_at": ago(seconds + 60)})
    at = datetime.now(UTC) - timedelta(seconds=seconds)
    console.project.execute(f"INSERT INTO orders VALUES (100, '{at:%Y-%m-%d %H:%M:%S}')")


def failing(console: Console) -> None:
    waiting(console)
    console.edit(delivery={"attempts": 9, "failures": 9, "last_error": ERROR, "retry_at": ago(-60)})


def crashing(console: Console) -> None:
    waiting(console)
    console.edit(delivery={"attempts": 3})


def halted(console: Console) -> None:
    failing(console)
    console.edit(control={"halted": True, "by": "poller", "reason": "row id=100 failed", "at": ago(60)})


def halted_and_another_source(console: Console) -> None:
    halted(console)
    changed(console.project, 'table = "orders"', 'table = "orders"\nfilter = "id > 0"')


def hung(console: Console) -> None:
    waiting(console)
    at_work(console)
    console.edit(lease={"acquired_at": ago(700)}, delivery={"attempts": 1})


def silent(console: Console) -> None:
    waiting(console, 45)
    at_work(console)
    console.edit(lease={"acquired_at": ago(50), "heartbeat_at": ago(40)}, delivery={"attempts": 1})


def aside(number: int, **more: Any) -> dict[str, Any]:
    cursor = {"kind": "timestamp+pk", "value": "2026-01-01 00:00:00", "tiebreaker": {"id": number}}
    facts = {"id": f"{number:016x}", "pk": f"p{number}", "key": f"k{number}", "cursor": cursor, "at": number}
    return {**facts, "since": ago(2000), "failures": 1, **more}


def not_retried(console: Console) -> None:
    console.edit(aside=[aside(1, retry_at=ago(1800))], checkpoint={"updated_at": ago(1900)})


def full(console: Console) -> None:
    changed(console.project, "[pollers.orders]", '[pollers.orders]\non_poison = "quarantine"\nmax_quarantined = 1')
    console.edit(quarantine=[aside(1)])


def blocked(console: Console) -> None:
    full(console)
    failing(console)


def paused(console: Console) -> None:
    waiting(console)
    console.done("pause", "orders", "--yes", "--reason", "migration")


def paused_and_no_database(console: Console) -> None:
    paused(console)
    (console.project.folder / "shop.db").unlink()


def nightly_and_killed(console: Console) -> None:
    """Its worker died in the middle of its tick."""
    night = datetime.now(UTC) + timedelta(hours=10)
    changed(console.project, "[pollers.orders]", f'[pollers.orders]\nschedule = "0 0 {night.hour} * * *"')
    waiting(console)
    console.edit(lease={"expires_at": ago(1100), "released_at": None})
    console.put(json.dumps({**console.state(), "unfinished": True}))


def clock(console: Console) -> None:
    """It was 73 years ahead when the last rows were read."""
    console.project.insert(1)
    state = console.state()
    state["bound"] = {**state["bound"], "clock": "2099-04-07T01:23:09.500000Z"}
    console.put(json.dumps(state))


def reset(console: Console) -> None:
    console.done("reset-to-beginning", "orders", "--yes")


STATES: dict[str, tuple[Callable[[Console], Any], str, str]] = {
    "idle": (lambda _: None, "idle", "well"),
    "rows for the next tick": (lambda console: waiting(console, 2), "behind", "well"),
    "late": (waiting, "late", "unhealthy"),
    "late soon": (lambda console: waiting(console, 180), "late", "warning"),
    "failing, next try ahead": (failing, "failing", "unhealthy"),
    "its worker dies each time": (crashing, "crashing", "unhealthy"),
    "halted": (halted, "halted", "unhealthy"),
    "halted, and another source": (halted_and_another_source, "halted", "unhealthy"),
    "hung": (hung, "hung", "unhealthy"),
    "killed a moment ago": (silent, "silent", "warning"),
    "working": (at_work, "working", "well"),
    "not retried": (not_retried, "not_retried", "unhealthy"),
    "quarantine full": (full, "quarantine_full", "unhealthy"),
    "blocked": (blocked, "blocked", "unhealthy"),
    "a row in quarantine": (lambda console: console.edit(quarantine=[aside(1)]), "quarantined", "warning"),
    "paused": (paused, "paused", "warning"),
    "paused, and no database": (paused_and_no_database, "paused", "warning"),
    "nightly, killed in mid-batch": (nightly_and_killed, "late", "unhealthy"),
    "a clock 73 years ahead": (clock, "clock_behind", "unhealthy"),
    "just reset": (reset, "behind", "well"),
    "its table is gone": (
        lambda console: console.project.execute("DROP TABLE orders"),
        "source_unreadable",
        "unhealthy",
    ),
    "no document": (deleted, "unreadable", "unhealthy"),
    "garbage": (lambda console: console.put("{"), "unreadable", "unhealthy"),
    "newer": (lambda console: console.put(json.dumps({**console.state(), "version": 7})), "unreadable", "unhealthy"),
}


@pytest.mark.parametrize("name", STATES)
def test_every_place_says_one_word(project: Project, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, word, severity = STATES[name]
    console = ran(project)
    made(console)
    before = [one for one in console.everything() if one[0] == STATE]

    (status,) = console.run("status", "--json").json["pollers"]
    assert (status["word"], status["severity"]) == (word, severity), status["conditions"]
    said = {one["sentence"] for one in status["conditions"]}

    ended = console.run("health", "--json")
    (health,) = ended.json["pollers"]
    assert (health["word"], health["severity"]) == (word, severity)
    assert ended.code == (severity == "unhealthy")
    assert console.run("health", "--strict").code == (severity != "well")

    (watched,) = console.run("watch", "--json", "--count", "1").json["pollers"]
    assert (watched["status"]["word"], watched["status"]["severity"]) == (word, severity)

    (checked,) = console.run("check", "--json").json["pollers"]
    (finding,) = [one for one in checked["findings"] if one["check"] == "delivery"]
    assert finding["severity"] == {"unhealthy": "error", "warning": "warn", "well": "ok"}[severity]

    monkeypatch.chdir(project.folder)
    with load_app(Path("poller.toml"), {}) as app:
        (found,) = app.health().pollers
        endpoints = endpoints_of(app, Keys(KEY), Hosts(["localhost"]))
        headers = (("host", "localhost"), ("x-functions-key", KEY))
        answer, page, bare = (
            endpoints(Request("GET", f"/api/{path}", headers=headers)) for path in ("pollers", "dashboard", "health")
        )
        endpoints.settle(5.0)
    assert (found.word, found.severity) == (word, severity)
    (shown,) = json.loads(answer.body)["pollers"]
    assert (shown["word"], shown["severity"]) == (word, severity)
    assert f"</svg>{title(word)}</span>" in page.body.decode()
    assert bare.status == (503 if severity == "unhealthy" else 200)
    assert "no customer" not in answer.body.decode() + page.body.decode()
    assert len(said) == len(status["conditions"])
    assert [one for one in console.everything() if one[0] == STATE] == before, "looking changes nothing"
