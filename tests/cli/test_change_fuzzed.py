"""Arguments of the commands that change or show a checkpoint, as fingers and scripts make them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.cli.console import Console
from tests.cli.fuzzing import JUNK, NAME, TEXT, fuzzed, mostly, nearly, some_of
from tests.support.waiting import row_id

FLAGS = some_of("--dry-run", "--break-lease", "--allow-skip", "--allow-skip")
PAIR = st.one_of(st.just("id=3"), st.just("id=3"), TEXT, TEXT.map("id={}".format), st.integers().map("id={}".format))
ROW_ID = nearly(row_id(2), row_id(4), row_id(9))
WHICH = st.one_of(
    st.tuples(st.just("--id"), ROW_ID),
    st.tuples(st.just("--id"), ROW_ID, st.just("--id"), ROW_ID),
    st.tuples(ROW_ID),
    st.tuples(ROW_ID, ROW_ID),
    st.tuples(st.just("--key"), PAIR),
    st.just(("--all",)),
)
MORE: dict[str, st.SearchStrategy[tuple[str, ...]]] = {
    "cancel": st.tuples(nearly("--no-wait")),
    "reset-to-cursor": st.tuples(
        st.just("--value"), nearly("2026-01-01 00:00:00"), st.just("--pk"), PAIR, st.just("--confirm"), NAME
    ),
    "reset-to-checkpoint": st.tuples(nearly("kept.json"), st.just("--token-at-least"), nearly("7")),
    "checkpoint clone": st.tuples(nearly("copy", "invoices")),
    "checkpoint export": st.tuples(nearly("new.json", "kept.json", "no/such/folder")),
    "undo": st.one_of(st.just(("--list",)), st.tuples(st.just("--change"), nearly("", "0", "0b473dab"))),
    "reset": st.tuples(st.just("--to"), nearly("beginning", "here", "kept.json", "2026-01-01 00:00:00")),
    "quarantine discard": WHICH,
    "quarantine add": st.tuples(st.just("--pk"), st.one_of(st.just("id=35"), PAIR)),
    "quarantine show": st.tuples(st.just("--id"), ROW_ID),
    "capture": st.tuples(nearly("--print", "--print", "--verify", "--url-env")),
    "peek": st.tuples(st.just("--limit"), nearly("3")),
}
CHANGING = (
    "pause",
    "cancel",
    "resume",
    "reset-to-beginning",
    "reset-to-cursor",
    "reset-to-checkpoint",
    "reset",
    "undo",
    "checkpoint clone",
    "rebind",
    "quarantine discard",
    "quarantine add",
)
LOOKING = ("checkpoint export", "history", "peek", "capture", "quarantine list", "quarantine show")


@st.composite
def commands(draw: st.DrawFn, kind: str) -> list[str]:
    """A command line that is nearly right."""
    words = [*kind.split(), draw(NAME)]
    if kind in MORE and draw(st.sampled_from([True, True, True, False])):
        words += draw(MORE[kind])
    if kind in CHANGING:
        words += draw(mostly("--yes")) + draw(FLAGS)
    return words + draw(some_of("--overwrite")) + draw(JUNK)


@pytest.mark.parametrize("kind", [*CHANGING, *LOOKING])
def test_whatever_is_typed(crowded_console: Console, kind: str) -> None:
    if kind == "undo":
        crowded_console.done("reset-to-beginning", "orders", "--yes")
    fuzzed(crowded_console, commands(kind), only_looks=kind in LOOKING)


def test_bytes_of_another_encoding_are_refused(crowded_console: Console, tmp_path: Path) -> None:
    crowded_console.refused(2, "pause", "orders", "--yes", "--reason", "caf\udce9", says="--reason is not UTF-8")
    crowded_console.refused(2, "reset-to-checkpoint", "orders", "caf\udce9.json", "--yes", says="FILE is not UTF-8")
