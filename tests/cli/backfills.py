"""A range of the console's tests, what was delivered of it, and what the store holds of it."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.console import Console
from tests.cli.project import Ended, Project
from tests.support.schemas import validator

FROM, TO = "2026-01-01 00:00:02", "2026-01-01 00:00:05"
RANGE = ("backfill", "orders", "--from", FROM, "--to", TO)
IN_RANGE = list(range(20, 50))
"""Of the rows that `Project.insert` makes: n is of second n // 10."""

AGED = "UPDATE poller_documents SET modified_at = strftime('%Y-%m-%dT%H:%M:%f', modified_at, '-600 seconds')"
"""The lease of one that died has ended."""


def ids(project: Project) -> list[int]:
    return [int(line.split()[1]) for line in project.lines("seen")]


def finished(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    validator("backfill").validate(ended.json)
    assert ended.json["finished"] is True
    found: dict[str, Any] = ended.json
    return found


def states(project: Project) -> dict[str, Any]:
    rows = project.execute("SELECT name, body FROM poller_documents WHERE name LIKE 'state/%'", database="state.db")
    return {name.split("/")[-1].removesuffix(".json"): json.loads(body) for name, body in rows}


def shown_backfills(console: Console, *names: str) -> list[dict[str, Any]]:
    ended = console.run("status", *names, "--json")
    assert ended.code == 0, ended.err
    validator("status").validate(ended.json)
    found: list[dict[str, Any]] = ended.json["backfills"]
    return found
