"""docs/health.md: its session prints what is shown, and its numbers are those of the code."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from poller.admin import memory, round  # noqa: A004 - the module's name
from poller.http import looks, serving
from poller.model.conditions import SHORTLY
from poller.model.view import PATIENCE, TABLE
from tests.cli.console import Console
from tests.cli.project import Project
from tests.repo.docs.blocks import ROOT, blocks

PAGE = "docs/health.md"


def shape(text: str) -> str:
    """The text without what differs from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:00:00Z", "MOMENT", text)
    return re.sub(r"\d+ h \d+ min|\d+ min", "LONG", text)


def committed_at(console: Console, name: str, at: datetime) -> None:
    document = f"state/shop/{name}.json"
    state = console.state(document)
    state["checkpoint"]["updated_at"] = at.isoformat()
    console.put(json.dumps(state), document)


def test_the_session_prints_what_is_shown(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "console")
    command, *shown = block.text.splitlines()
    assert command == "$ poller health"
    names = [line.split()[0] for line in shown]
    now = datetime.now(UTC)
    last_night = (now - timedelta(hours=12)).replace(minute=0, second=0)
    project = Project(tmp_path)
    project.configure(*names)
    text = (tmp_path / "poller.toml").read_text()
    nightly = f'schedule = "0 0 {last_night.hour} * * *"'
    project.write(text.replace("[pollers.invoices]\n", f"[pollers.invoices]\n{nightly}\n"))
    console = Console(project)
    for name in names:
        project.execute(f"INSERT INTO {name} (id, updated_at) VALUES (1, '2026-01-01 00:00:00')")
        assert console.run("run", name, "--once").code == 0  # one after the other: none holds another's file
    console.done("pause", "payments", "--yes")
    committed_at(console, "orders", now - timedelta(hours=5))
    committed_at(console, "invoices", last_night + timedelta(seconds=30))
    at = f"{now - timedelta(minutes=73):%Y-%m-%d %H:%M:%S}"
    for name in ("orders", "invoices", "payments"):
        project.execute(f"INSERT INTO {name} (id, updated_at) VALUES (2, '{at}'), (3, '{at}'), (4, '{at}')")
    ended = console.run("health")
    by = json.loads(console.document("state/shop/payments.json"))["control"]["by"]
    assert re.sub(r"\d+ s ago", "3 s ago", shape(ended.out)).replace(by, "ada").splitlines() == [
        shape(line) for line in shown
    ]
    assert ended.code == 1


def test_its_table_lists_every_condition_in_order() -> None:
    page = (ROOT / PAGE).read_text().partition("## Conditions\n")[2].partition("\n## ")[0]
    named = [
        name
        for line in page.splitlines()
        if line.startswith("| `")
        for name in re.findall("`(\\w+)`", line.split("|")[1])
    ]
    assert named == list(TABLE)


def test_its_numbers_are_those_of_the_code() -> None:
    page = (ROOT / PAGE).read_text()
    assert f"*L* is {PATIENCE / 60:.0f} minutes and `lease_ttl`, *S* is {SHORTLY:.0f} seconds" in page
    assert f"A database has {round.LOOK_TIMEOUT:.0f} seconds to answer" in page
    assert f"looks once in {serving.KEPT:.0f} seconds" in page
    assert f"twice as long as it took, up to {looks.LONGEST:.0f} seconds" in page
    assert (looks.SHARE, round.PER_DATABASE) == (2, 2)
    assert f"two look at one database at a time, and {round.THREADS} in\nall" in page
    assert f"up to {memory.LARGEST // 1024} KiB" in page
