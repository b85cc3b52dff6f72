"""Arguments as fingers and scripts make them: no traceback, no exit code outside the table, no change on refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Project
from tests.cli.console import Console
from tests.cli.test_pause import ran

CODES = {0, 1, 2, 3, 4}

TEXT = st.one_of(
    st.text(max_size=20),
    st.text(alphabet="0123456789-:. TZ+", max_size=30),
    st.sampled_from(
        ["", "-", "--", "=", "id=", "=1", "id=1=2", "\0", "\ud800", "\x1b[2J", "%s", "{}", "'; DROP TABLE orders; --",
         "2026-01-01", "2026-01-01T00:00:00", "2026-02-30T00:00:00", "9999-12-31T23:59:59.999999", "infinity",
         "0001-01-01 00:00:00", "1" * 5000, "-1", "1e400", "nan", "orders", "orders ", "Orders", "nobody", "/", "."]
    ),
)  # fmt: skip
NAME = st.one_of(st.just("orders"), TEXT)
PAIR = st.one_of(TEXT, TEXT.map(lambda text: f"id={text}"), st.integers().map(lambda n: f"id={n}"))
FLAGS = st.lists(
    st.sampled_from(["--yes", "--dry-run", "--break-lease", "--allow-skip", "--json", "--overwrite", "--rebind"]),
    max_size=4,
)


@st.composite
def commands(draw: st.DrawFn) -> list[str]:
    """A command line that is nearly right."""
    kind = draw(
        st.sampled_from(
            ["pause", "resume", "reset-to-beginning", "reset-to-cursor", "reset-to-checkpoint", "clone-checkpoint",
             "export-checkpoint", "rebind", "history", "peek"]
        )
    )  # fmt: skip
    words = [kind]
    words += draw(st.lists(NAME, min_size=1, max_size=1)) if draw(st.integers(0, 9)) else []
    if kind in ("reset-to-checkpoint", "clone-checkpoint"):
        words.append(draw(TEXT))
    if kind == "reset-to-cursor":
        words += ["--value", draw(st.one_of(st.just("2026-01-01 00:00:00"), TEXT))]
        for pair in draw(st.lists(PAIR, max_size=2)):
            words += ["--pk", pair]
    if draw(st.booleans()):
        words += [draw(st.sampled_from(["--reason", "--confirm", "--limit", "--token-at-least", "-c", "--nonsense"]))]
        words += [draw(TEXT)]
    return words + draw(FLAGS)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Console:
    folder = tmp_path_factory.mktemp("fuzzed")
    return ran(Project(folder))


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(words=commands())
def test_whatever_is_typed(console: Console, words: list[str], monkeypatch: Any) -> None:
    monkeypatch.chdir(console.project.folder)  # where a FILE may come to be
    before = console.everything()
    ended = console.run(*words)
    told = f"{words!r}: {ended.err}"
    assert ended.code in CODES, told
    assert "is a fault in poller" not in ended.err, told
    if ended.code != 0:
        assert ended.err.splitlines()[-1].startswith("poller: "), told
        assert console.everything() == before, told
    if "--dry-run" in words or words[0] in ("history", "peek", "export-checkpoint"):
        assert console.everything() == before, told
    if "--json" in words and ended.code == 0 and "--help" not in words:
        assert ended.json is not None


def test_bytes_of_another_encoding_are_told(console: Console, tmp_path: Path) -> None:
    console.refused(2, "pause", "orders", "--yes", "--reason", "caf\udce9", says="--reason is not UTF-8")
    console.refused(2, "reset-to-checkpoint", "orders", "caf\udce9.json", "--yes", says="FILE is not UTF-8")
