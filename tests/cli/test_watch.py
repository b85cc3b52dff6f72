"""`poller watch`: JSON lines for programs; a live screen for people, and the keys that it heeds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pexpect
import pytest

from poller.backfill.watch import Watcher
from poller_cli.output.sparkline import History, sparkline
from poller_cli.session import Session
from tests.cli.console import Console
from tests.cli.project import NOTING, Project
from tests.support.cases import each
from tests.support.schemas import validator
from tests.support.services import wait_until


@pytest.fixture
def shop(project: Project) -> Project:
    project.configure("orders", "invoices", handlers=NOTING)
    project.insert(30)
    return project


def test_json_is_one_line_per_look(shop: Project) -> None:
    ended = Console(shop).run("watch", "--json", "--count", "3", "--interval", "50ms")
    assert ended.code == 0
    assert len(ended.events) == 3
    for event in ended.events:
        validator("watch").validate(event)
    assert [one["status"]["name"] for one in ended.events[0]["pollers"]] == ["orders", "invoices"]
    assert ended.events[2]["pollers"][0]["status"]["pending"] == 30


def test_the_rate_is_what_the_checkpoint_passed_between_two_looks(shop: Project) -> None:
    now = [100.0]
    with Session(config=shop.folder / "poller.toml").app() as app:
        watcher = Watcher([app.poller("orders")], app.backfills, clock=lambda: now[0])

        def rate() -> float | None:
            now[0] += 5
            return watcher.sample().output.pollers[0].rows_per_second

        assert rate() is None, "nothing to compare with yet"
        assert Console(shop).run("run", "orders", "--once").code == 0
        assert rate() is None, "the document was not there before"
        assert rate() == 0
        shop.insert(20)
        assert Console(shop).run("run", "orders", "--once").code == 0
        assert rate() == 20 / 5
        Console(shop).done("reset-to-beginning", "orders", "--yes")
        assert rate() == 0, "a checkpoint that goes back delivers nothing"


def test_a_named_backfill_stays_on_the_screen_when_it_is_finished(shop: Project) -> None:
    halting = NOTING + "    if any(row['id'] == 25 for row in batch): raise ValueError('no such customer')\n"
    shop.configure("orders", handlers=halting, poller="batch_size = 10\nmax_attempts = 1\non_poison = 'halt'")
    range_ = ("backfill", "orders", "--from", "2026-01-01 00:00:01", "--to", "2026-01-01 00:00:03", "--as", "replay")
    console, now = Console(shop), [100.0]
    assert console.run(*range_, "--yes").code == 1
    with Session(config=shop.folder / "poller.toml").app() as app:
        watcher = Watcher([], app.backfills, app.named("replay").documents, clock=lambda: now[0])
        beneath = Watcher([app.poller("orders")], app.backfills, clock=lambda: now[0])

        def look() -> tuple[int | None, bool, float | None, int]:
            now[0] += 5
            output = watcher.sample().output
            ((one,),) = [output.backfills or []]
            return (
                one.status.pending,
                one.status.finished,
                one.rows_per_second,
                len(beneath.sample().output.backfills or []),
            )

        assert look() == (5, False, None, 1), "row 25 and those behind it"
        (shop.folder / "handlers.py").write_text(NOTING)
        assert shop.run(*range_, "--yes", "--retry").code == 0
        assert look() == (0, True, 5 / 5, 0)
    for event in console.run("watch", "replay", "--json", "--count", "2", "--interval", "50ms").events:
        validator("watch").validate(event)
        assert (event["pollers"], [one["status"]["name"] for one in event["backfills"]]) == ([], ["replay"])


def test_an_unreachable_database_is_shown_and_ends_with_1(shop: Project) -> None:
    (shop.folder / "shop.db").unlink()
    (shop.folder / "shop.db").mkdir()
    ended = Console(shop).run("watch", "orders", "--json", "--count", "1")
    assert ended.code == 1
    assert ended.events[0]["pollers"][0]["status"]["error"]


@each("arguments", [(), ("--count", "1")])
def test_without_a_terminal_it_needs_json(shop: Project, arguments: tuple[str, ...]) -> None:
    ended = Console(shop).run("watch", *arguments)
    assert ended.code == 2
    assert "--json" in ended.error


@pytest.mark.parametrize(
    ("values", "width", "shown"),
    [
        ([], 10, ""),
        ([0.0, 0.0], 10, "▁▁"),
        ([0.0, 4.0, 8.0], 10, "▁▅█"),
        ([1.0, None, 2.0], 10, "▅ █"),
        ([9.0, 1.0, 2.0], 2, "▅█"),
        ([1.0], 0, ""),
    ],
)
def test_bars_are_scaled_to_the_highest_and_the_newest_are_kept(
    values: list[float | None], width: int, shown: str
) -> None:
    assert sparkline(values, width) == shown
    assert sparkline(values, width, plain=True).isascii()


def test_what_is_not_known_is_a_gap_and_no_row_pending_is_no_lag(shop: Project) -> None:
    with Session(config=shop.folder / "poller.toml").app() as app:
        orders, invoices = (
            Watcher([app.poller("orders"), app.poller("invoices")], app.backfills).sample().output.pollers
        )
    behind, idle = History(), History()
    behind.add(orders)
    idle.add(invoices)
    assert list(behind.rates) == [None]
    assert behind.lags[0] == orders.status.lag_seconds != 0
    assert list(idle.lags) == [0.0]


# --- on a terminal -------------------------------------------------------------------------------------------------


@contextmanager
def terminal(
    project: Project, *arguments: str, columns: int = 100, rows: int = 40, **environ: str
) -> Iterator[pexpect.spawn]:
    unsized = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    child = project.on_terminal(
        *("watch", "--interval", "200ms", *arguments),
        env={**unsized, "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **environ},
        dimensions=(rows, columns),
        timeout=30,
    )
    try:
        yield child
    finally:
        child.close(force=True)


def test_the_screen_shows_every_poller_and_q_quits(shop: Project) -> None:
    with terminal(shop) as child:
        child.expect("q quit")
        child.expect("orders")
        child.expect("30 rows")
        child.expect("invoices")
        child.send("q")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0


def test_p_asks_why_and_pauses_and_r_resumes_the_chosen_one(shop: Project) -> None:
    assert Console(shop).run("run", "--once").code == 0
    with terminal(shop) as child:
        child.expect("> .*orders")
        child.send("\x1b[B")
        child.expect("> .*invoices")
        child.send("p")
        child.expect("Why is invoices paused?")
        child.sendline("")
        child.expect(r"pause invoices\? \[y/N\]")
        child.sendline("")
        child.expect("Not confirmed")
        child.send(" ")
        child.expect("q quit")
        child.send("p")
        child.expect("Why is invoices paused?")
        child.sendline("the printer is out of paper")
        child.expect(r"pause invoices\? \[y/N\]")
        child.sendline("y")
        child.expect("Done.")
        child.send(" ")
        child.expect("paused")
        control = {name: Console(shop).state(f"state/shop/{name}.json")["control"] for name in ("orders", "invoices")}
        assert (control["orders"]["paused"], control["invoices"]["paused"]) == (False, True)
        assert control["invoices"]["reason"] == "the printer is out of paper"
        child.send("r")
        child.expect(r"resume invoices\? \[y/N\]")
        child.sendline("y")
        child.expect("Done.")
        child.send(" ")
        child.expect("q quit")
        child.send("q")
        child.expect(pexpect.EOF)
    assert Console(shop).state("state/shop/invoices.json")["control"]["paused"] is False


def test_it_ends_after_the_last_look_on_a_narrow_plain_terminal(shop: Project) -> None:
    with terminal(shop, "orders", "--count", "2", columns=30, NO_COLOR="1") as child:
        child.expect(pexpect.EOF)
        shown = child.before
        child.close()
        assert child.exitstatus == 0
    assert "orders" in shown
    assert re.search(r"\x1b\[[0-9;]*3[0-7]m", shown) is None


def test_ctrl_c_is_an_ordinary_end(shop: Project) -> None:
    with terminal(shop) as child:
        child.expect("30 rows")
        child.sendcontrol("c")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0


def test_a_dumb_terminal_is_none(shop: Project) -> None:
    with terminal(shop, TERM="dumb") as child:
        child.expect("needs a terminal")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 2


NAMES = [f"p{n}" for n in range(8)]


@pytest.fixture
def many(project: Project) -> Project:
    project.configure(*NAMES, handlers=NOTING)
    for name in NAMES:
        project.insert(3, table=name)
    return project


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def chosen(name: str) -> str:
    """What marks it, colours between."""
    return rf">(?: |\x1b\[[0-9;]*m)+{name}"


def test_the_chosen_one_is_on_the_screen_and_the_rest_is_counted(many: Project) -> None:
    assert Console(many).run("run", "--once").code == 0
    with terminal(many, columns=80, rows=24) as child:
        child.expect(chosen("p0"))
        child.expect("[456] more below")
        child.send("jjjjj")
        child.expect("[1-5] more above")
        child.expect(chosen("p5"))
        child.expect("[12] more below")
        child.send("p")
        child.expect("Why is p5 paused")
        child.sendline("")
        child.expect(r"\[y/N\]")
        child.sendline("n")
        child.expect("Not confirmed")
        child.send(" ")
        child.expect(chosen("p5"))
        child.send("\x1b[B\x1b[B")
        child.expect(chosen("p7"))
        child.send("\x1b[Ajq")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
        assert "more below" not in plain(child.before)


def test_a_narrow_screen_has_its_bars_on_lines_of_their_own(many: Project) -> None:
    with terminal(many, "p0", "--count", "2", columns=40, rows=24) as child:
        child.expect(pexpect.EOF)
    assert re.search(r"^ +[▁▂▃▄▅▆▇█]+", plain(child.before), re.MULTILINE)


def test_who_holds_the_lease_since_when_and_his_last_heartbeat(many: Project) -> None:
    (many.folder / "wait").touch()
    worker = many.start("run", "p0", "--once")
    wait_until(lambda: many.lines("started"))
    with terminal(many, "p0", "--count", "1", columns=80, rows=24) as child:
        child.expect(pexpect.EOF)
    (many.folder / "wait").unlink()
    worker.wait(30)
    shown = " ".join(plain(child.before).split())
    assert re.search(r"lease \S+, fencing token 1, since 20\S+ \S+Z, last heartbeat \S+ s ago, expires in", shown)
