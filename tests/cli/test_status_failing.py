"""`poller status` and `poller watch` of rows that fail, and of rows that wait: from the state document as it is."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console as Screen

from poller.backfill.watch import Watcher
from poller_cli.output.sparkline import History
from poller_cli.output.watch_loop import screen as look_of
from poller_cli.session import Session
from tests.cli.console import Console, changed, ran, word
from tests.cli.project import Project
from tests.support.schemas import validator

ERROR = {"type": "ValueError", "message": "no such customer"}
AT = "2026-01-01 00:00:00"


def cursor(number: int) -> dict[str, Any]:
    return {"kind": "timestamp+pk", "value": AT, "tiebreaker": {"id": number}}


def waiting(number: int, **fields: Any) -> dict[str, Any]:
    facts = {"id": f"{number:016x}", "pk": f"p{number}", "key": f"k{number}", "cursor": cursor(number), "at": number}
    return {**facts, "since": f"2026-04-07T01:23:{number:02d}Z", "failures": 1, **fields}


@pytest.fixture
def shop(project: Project) -> Console:
    """A poller that delivered five rows, and has three more to deliver."""
    console = ran(project)
    project.insert(3)
    return console


def window(console: Console, suspect: int, **delivery: Any) -> None:
    """As if the row that fails were searched for among the rows up to this one."""
    after = console.state()["checkpoint"]["cursor"]
    search = {"after": after, "generation": 0, "until": cursor(8), "suspect": cursor(suspect)}
    console.edit(delivery={"last_error": ERROR, "window": search, "attempts": 0, **delivery})


def failing(console: Console) -> dict[str, Any]:
    ended = console.run("status", "--json")
    validator("status").validate(ended.json)
    assert ended.code == 0
    found: dict[str, Any] = ended.json["pollers"][0]["failing"]
    return found


def lines(console: Console) -> list[str]:
    return [" ".join(line.split()) for line in console.run("status").out.splitlines()]


def next_step(console: Console) -> str:
    """Without the options that name the configuration."""
    (line,) = [line for line in lines(console) if line.startswith("next ")]
    return re.sub(r"poller -c \S+ ", "poller ", line.removeprefix("next "))


def test_where_the_row_that_fails_is_searched_for(shop: Console) -> None:
    window(shop, 7, failures=1)
    assert word(shop) == "failing"
    assert f"row searching for the one that fails among the rows up to {AT} / id=7" in lines(shop)
    assert (failing(shop)["row"], failing(shop)["searched_up_to"]["tiebreaker"]) == (None, {"id": 7})


def test_a_row_handed_over_alone_needs_no_search(shop: Console) -> None:
    changed(shop.project, "[pollers.orders]", "[pollers.orders]\nbatch_size = 1")
    shop.edit(delivery={"attempts": 5, "failures": 5, "last_error": ERROR})
    assert failing(shop)["row"] == cursor(6)


@pytest.mark.parametrize("searched", [False, True])
def test_a_row_that_was_always_alone_is_not_blamed_at_once(shop: Console, searched: bool) -> None:
    """Its first failures may be an outage: no other row was tried."""
    changed(shop.project, "[pollers.orders]", "[pollers.orders]\nbatch_size = 1")
    if searched:
        window(shop, 6, failures=4)
    else:
        shop.edit(delivery={"attempts": 4, "failures": 4, "last_error": ERROR})
    found = failing(shop)
    assert (found["row"], found["searched_up_to"]) == (None, cursor(6) if searched else None)
    assert "quarantine add" not in next_step(shop)


def test_rows_that_wait_are_counted(shop: Console) -> None:
    shop.edit(aside=[waiting(2), waiting(1), waiting(4, behind=True)], quarantine=[waiting(3)])
    found = failing(shop)
    assert (found["aside"], found["quarantined"]) == (3, 1)


def test_watch_shows_the_same(shop: Console) -> None:
    window(shop, 6, failures=2)
    shop.edit(aside=[waiting(1)])
    with Session(config=shop.project.folder / "poller.toml").app() as app:
        output = Watcher([app.poller("orders")], app.backfills).sample().output
    screen = Screen(file=io.StringIO(), width=110, height=40, record=True)
    screen.print(look_of(output, {"orders": History()}, chosen="orders", console=screen, keys=False))
    shown = " ".join(screen.export_text().split())
    said = "why Failing, 2 calls failed; next try with the next tick. ValueError: no such customer at id=6"
    assert said in shown


def test_once_a_row_worked_the_search_goes_on_behind_it(shop: Console) -> None:
    window(shop, 5, failures=0)
    assert word(shop) == "failing"
    assert f"row searching for the one that fails among the rows up to {AT} / id=8" in lines(shop)
    assert not [line for line in lines(shop) if "0 on the pending batch" in line]
