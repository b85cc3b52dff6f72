"""What people read fits their terminal: at 80 columns no word and no number is split, and no line is too long."""

from __future__ import annotations

import io
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import pytest
from rich.console import Console as Screen

from poller.admin import PollerStatus
from poller.backfill.watch import Watcher
from poller.observability import BatchStarted
from poller_cli.commands import demo
from poller_cli.demo.play import Play
from poller_cli.demo.scene import Scene
from poller_cli.demo.workers import Worker
from poller_cli.output.models import DemoOutput
from poller_cli.output.sparkline import History
from poller_cli.output.status_report import table
from poller_cli.output.watch_loop import screen as watched
from poller_cli.session import Session
from poller_cli.terminal.layout import cells, clipped, distinct, shortened, wrapped
from poller_cli.terminal.pace import Pace
from poller_cli.terminal.progress import LiveProgress
from tests.cli.console import Console
from tests.cli.project import Ended, Project
from tests.support.cases import each
from tests.support.waiting import waits

NAMES = ("orders", "invoices", "returns", "refunds", "lost")
LONG = ("inventory-of-the-warehouse-in-the-north", "inventory-of-the-warehouse-in-the-south")
REASON = "the warehouse moves to Antofagasta-Norte, and nobody may write to it before Monday 06:00:00"
HANDLERS = f"""
def handle(batch):
    if batch.poller_name == "invoices":
        raise ConnectionError("{REASON}; 1,234,567 orders wait")
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Console:
    """Of everything that commands show, something."""
    project = Project(tmp_path_factory.mktemp("w"))
    names = [name.replace("-", "_") for name in (*NAMES, *LONG)]
    project.configure(*names, handlers=HANDLERS, poller="retry_backoff = '1h'\nretry_backoff_max = '1h'")
    text = (project.folder / "poller.toml").read_text()
    for name in LONG:
        text = text.replace(f"[pollers.{name.replace('-', '_')}", f"[pollers.{name}")
    project.write(text)
    console = Console(project)
    for name in names:
        project.insert(9, table=name)
    console.run("run", "--once")
    with console.store() as store:
        waits(store, failed=[2], pending=[7])
        waits(store, failed=[4], behind=[5], key="c")
    project.environ["POLLER_OPERATOR"] = "ada.lovelace@operations-desk-3.example"
    console.done("pause", "returns", "--yes", "--reason", REASON)
    project.execute("DROP TABLE lost")
    return console


def seen(console: Console, columns: int, *command: str) -> Ended:
    """What it shows on a terminal that is so wide."""
    console.project.environ |= {"COLUMNS": str(columns), "NO_COLOR": "1"}
    with patch("poller_cli.terminal.layout.is_terminal", return_value=True):
        return console.run(*command)


def words(text: str) -> str:
    """All of it with single blanks, ages and times without what passes from one look to the next."""
    text = re.sub(r"\d+ (ms|s|min|h)\b", r"0 \1", text)
    return " ".join(re.sub(r"\d\d:\d\d:\d\dZ", "00:00:00Z", text).split())


def assert_fits(text: str, columns: int) -> None:
    assert [line for line in text.splitlines() if cells(line) > columns] == []


COMMANDS = (
    *(("status", name) for name in NAMES),
    *(("status", "-v", name) for name in NAMES),
    ("status", "-v"),
    ("check",),
    ("check", "orders", "-v"),
    ("history", "returns"),
    ("quarantine", "list", "orders"),
    ("peek", "refunds"),
    ("peek", "invoices"),
    ("resume", "returns", "--dry-run"),
    ("reset-to-beginning", "orders", "--dry-run"),
)


@each("command", COMMANDS)
def test_at_80_columns_lines_break_between_words(shop: Console, command: tuple[str, ...]) -> None:
    """Whatever is split gets a blank more than it has where lines are as long as they like."""
    wide, narrow = seen(shop, 10_000, *command), seen(shop, 80, *command)
    for one, other in ((wide.out, narrow.out), (wide.err, narrow.err)):
        assert_fits(other, 80)
        assert words(other) == words(one)


@each("command", [("status",), ("health",)])
def test_at_80_columns_a_table_has_a_line_for_each(shop: Console, command: tuple[str, ...]) -> None:
    wide, narrow = shop.run(*command).out, seen(shop, 80, *command).out
    assert_fits(narrow, 80)
    whole = {re.sub(r"\d+", "0", part) for word in wide.split() for part in (word, word.rstrip(",;:"))}
    for line in narrow.splitlines():
        for word in re.sub(r"\d+", "0", line).split():
            begins, cut, ends = word.partition("…")
            assert any(one.startswith(begins) and one.endswith(ends) for one in whole) if cut else word in whole, line
    for name in NAMES:
        assert len(re.findall(rf"^{name} ", narrow, re.MULTILINE)) == 1
    assert len(set(re.findall(r"^inven\S+", narrow, re.MULTILINE))) == 2, "the long names stay different"


def test_at_80_columns_watch_breaks_between_words(shop: Console) -> None:
    with Session(config=shop.project.folder / "poller.toml").app() as app:
        output = Watcher(app.several(None)[0], app.backfills).sample().output
    histories = {one.status.name: History() for one in output.pollers}
    shown = []
    for columns in (40, 80, 400):
        file = io.StringIO()
        screen = Screen(width=columns, height=500, file=file, force_terminal=False)
        screen.print(watched(output, histories, chosen="orders", console=screen, keys=True))
        assert_fits(file.getvalue(), columns)
        shown.append(words(file.getvalue()))
    assert shown[1] == shown[2]


EVENTS: tuple[dict[str, object], ...] = (
    {"event": "lease_taken_over", "previous_fencing_token": 123_456, "fencing_token": 123_457},
    {"event": "tick", "rows": 12_345, "batches": 1_234, "pending": 10_000, "fencing_token": 1_234},
)
CLOSING = DemoOutput(
    rows_written=27_004,
    rows_delivered=27_004,
    missing=0,
    delivered_twice=400,
    killed_batch_rows=400,
    twice_outside_killed_batch=0,
    token_before_kill=123_456,
    token_after_takeover=123_457,
    takeover_seconds=5.1,
    elapsed_seconds=21.4,
    ok=True,
)


def test_at_80_columns_the_demo_breaks_between_words(tmp_path: Path) -> None:
    shown = {}
    with patch("poller_cli.terminal.layout.is_terminal", return_value=True):
        for columns in (80, 400):
            out = io.StringIO()
            with patch.dict("os.environ", {"COLUMNS": str(columns)}), patch("sys.stdout", out):
                play = Play(Scene(tmp_path), lambda _, line, out=out: demo._say(out, 1_012.5, line))  # type: ignore[misc]
                for event in EVENTS:
                    play._observe(Worker("A", play.scene, play._observe), event)
                table = demo._table(CLOSING)
            assert_fits(out.getvalue() + table, columns)
            shown[columns] = words(out.getvalue() + table)
    assert shown[80] == shown[400]


def test_at_80_columns_progress_shows_whole_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    progress, screen = LiveProgress(), Screen(width=80, file=io.StringIO())
    pace = Pace(total=9_999_999)
    progress.lasting[LONG[0]] = pace
    began = BatchStarted(
        poller=LONG[0], rows=10, attempt=1, at=datetime.now(UTC), owner_id="me", fencing_token=1, batch_id="b"
    )
    progress(began)
    pace.committed(1_204_311, None, now=time.monotonic() + 90, at=began.at)
    pace.lag = 7_500.0
    for part in progress._progress.get_renderables():
        screen.print(part)
    assert isinstance(screen.file, io.StringIO)
    (line,) = screen.file.getvalue().splitlines()
    assert "rows/s 2 h 5 min behind, " in line
    assert line.count("…") == 1, "of the name"


@each("command", [("status",), ("check",), ("health",), *COMMANDS[-6:]])
def test_at_40_columns_every_command_works(shop: Console, command: tuple[str, ...]) -> None:
    assert seen(shop, 40, *command).code == shop.run(*command).code


def test_a_row_too_wide_for_the_terminal_says_what_is_left_out(shop: Console) -> None:
    project = shop.project
    for n in range(6):
        project.execute(f"ALTER TABLE refunds ADD COLUMN the_{n}th_of_many_columns TEXT DEFAULT 'some words of it'")
    project.execute("INSERT INTO refunds (id, updated_at) VALUES (100, '2026-02-01 00:00:00')")
    shown = seen(shop, 80, "peek", "refunds").out
    assert_fits(shown, 80)
    assert "and 4 more columns" in shown
    assert shown.splitlines()[1].split()[:2] == ["updated_at", "id"]


# --- the parts -------------------------------------------------------------------------------------------------------


def test_a_line_breaks_at_blanks_and_keeps_a_number_with_its_unit() -> None:
    assert wrapped("  next  it is tried in 12 min", 26, hang=8) == ["  next  it is tried in", "        12 min"]
    assert wrapped("at 2026-04-07 01:23:45Z", 14) == ["at", "2026-04-07 01:23:45Z"]
    assert wrapped("  a  " + "x" * 30, 20, hang=6) == ["  a", "x" * 30], "a word stays whole, for copying"
    assert wrapped("-> SET x = 'a b c'", 14, hang=3, statement=True) == ["-> SET x =", "   'a b c'"]
    assert wrapped("日本語 日本語", 8) == ["日本語", "日本語"]


def test_shortened_names_stay_different() -> None:
    assert shortened("inventory-of-the-north", 12) == "inven…-north"
    assert distinct(["a" * 30 + "1" + "b" * 30, "a" * 30 + "2" + "b" * 30], 12) is None, "their middle differs"
    assert distinct(["a" * 30 + "1", "a" * 30 + "2"], 5) == ["aa…a1", "aa…a2"]
    assert distinct(["1" + "a" * 30, "2" + "a" * 30], 5) == ["1a…aa", "2a…aa"]


def test_shortened_wide_text_fits_and_repeats_nothing() -> None:
    assert shortened("接続できません", 9) == "接続…せん"
    assert shortened("ab表表表表cd", 8) == "ab…表cd"
    assert [cells(shortened("接続" * 20, width)) <= width for width in range(1, 30)] == [True] * 29


def test_clipped_text_ends_with_a_whole_word() -> None:
    assert clipped("by ada: 1,234 rows", 16) == "by ada: 1,234 …"
    assert clipped("by ada: 1,234 rows", 12) == "by ada …"
    assert clipped("x" * 30 + ", in 41 min", 9) == "xxxx…xxxx"


def test_a_state_is_coloured_and_not_the_name_that_holds_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    class Narrow(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", Narrow())
    status = PollerStatus(name="idle-stock", app_name="shop", document="state/shop/idle-stock.json", word="idle")

    assert table([status], {})[0] == "idle-stock  \x1b[32midle\x1b[0m"
