"""docs/health.md lists the events and metrics that there are; its example exports them."""

from __future__ import annotations

import logging
import re
import sqlite3
from pathlib import Path

from poller import observability
from poller.observability import PollerEvent
from tests.repo.docs.blocks import GETTING_STARTED, ROOT, blocks, run
from tests.support.exported import documented

PAGE = "docs/health.md"


def test_every_event_that_should_be_rare_is_listed_with_its_level() -> None:
    events = [one for one in vars(observability).values() if isinstance(one, type) and issubclass(one, PollerEvent)]
    rare = {one.name: logging.getLevelName(one.level).lower() for one in events if one.level >= logging.WARNING}

    assert {name: level for name, (level, _) in documented("Logs").items()} == rare


def test_a_handlers_module_as_shown_exports_what_the_page_lists(tmp_path: Path) -> None:
    (example,) = blocks(PAGE, "python")
    (tmp_path / "handlers.py").write_text(example.text)
    (tmp_path / "poller.toml").write_text(blocks(GETTING_STARTED, "toml")[0].text)
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, total REAL, updated_at TEXT NOT NULL)")
        shop.execute("INSERT INTO orders VALUES (1, 99.5, '2026-01-01 00:00:00.000')")

    exported = set(re.findall(r'"name": "(poller\.[a-z_.]+)"', run(["poller", "run", "--once"], tmp_path)))

    rare = {"poller.late_rows", "poller.events", "poller.aside", "poller.stale_writes", "poller.lease.losses"}
    rare.add("poller.condition")  # of what is not well
    seldom = re.compile(r"poller\.(quarantine|dispatch)\.")
    listed = documented("Metrics").keys() - rare
    assert {name for name in listed if not seldom.match(name)} <= exported


def test_every_incident_that_it_leads_to_is_there() -> None:
    wanted = re.findall(r"\(incidents\.md#([a-z-]+)\)", (ROOT / PAGE).read_text())
    headings = re.findall(r"^## (.+)$", (ROOT / "docs" / "incidents.md").read_text(), re.MULTILINE)

    assert wanted
    assert set(wanted) <= {re.sub(r"[^a-z -]", "", one.lower()).replace(" ", "-") for one in headings}
