"""Arguments of the commands that change or show a checkpoint, as fingers and scripts make them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.cli.console import Console
from tests.cli.fuzzing import JUNK, NAME, TEXT, fuzzed, mostly, nearly, some_of

FLAGS = some_of("--dry-run", "--break-lease", "--allow-skip", "--allow-skip")
PAIR = st.one_of(st.just("id=3"), st.just("id=3"), TEXT, TEXT.map("id={}".format), st.integers().map("id={}".format))
MORE = {
    "reset-to-cursor": st.tuples(
        st.just("--value"), nearly("2026-01-01 00:00:00"), st.just("--pk"), PAIR, st.just("--confirm"), NAME
    ),
    "reset-to-checkpoint": st.tuples(nearly("kept.json"), st.just("--token-at-least"), nearly("7")),
    "clone-checkpoint": st.tuples(nearly("copy", "invoices")),
    "export-checkpoint": st.tuples(nearly("new.json", "kept.json", "no/such/folder")),
    "peek": st.tuples(st.just("--limit"), nearly("3")),
}
CHANGING = (
    "pause",
    "resume",
    "reset-to-beginning",
    "reset-to-cursor",
    "reset-to-checkpoint",
    "clone-checkpoint",
    "rebind",
)
LOOKING = ("export-checkpoint", "history", "peek")


@st.composite
def commands(draw: st.DrawFn, kind: str) -> list[str]:
    """A command line that is nearly right."""
    words = [kind, draw(NAME)]
    if kind in MORE and draw(st.sampled_from([True, True, True, False])):
        words += draw(MORE[kind])
    if kind in CHANGING:
        words += draw(mostly("--yes")) + draw(FLAGS)
    return words + draw(some_of("--overwrite")) + draw(JUNK)


@pytest.mark.parametrize("kind", [*CHANGING, *LOOKING])
def test_whatever_is_typed(crowded_console: Console, kind: str) -> None:
    fuzzed(crowded_console, commands(kind), only_looks=kind in LOOKING)


def test_bytes_of_another_encoding_are_refused(crowded_console: Console, tmp_path: Path) -> None:
    crowded_console.refused(2, "pause", "orders", "--yes", "--reason", "caf\udce9", says="--reason is not UTF-8")
    crowded_console.refused(2, "reset-to-checkpoint", "orders", "caf\udce9.json", "--yes", says="FILE is not UTF-8")
