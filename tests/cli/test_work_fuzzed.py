"""Arguments of backfill, import and watch as fingers make them: no traceback, no code outside the table, no change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Project
from tests.cli.console import Console
from tests.cli.test_fuzzed import CODES, FLAGS, NAME, TEXT

FIXTURES = Path(__file__).parent / "fixtures"
MOMENT = st.one_of(st.sampled_from(["2026-01-01 00:00:01", "2026-01-01 00:00:02", "2026-01-01", "1970-01-01"]), TEXT)


@st.composite
def commands(draw: st.DrawFn) -> list[str]:
    """A command line that is nearly right."""
    kind = draw(st.sampled_from(["backfill", "import", "watch"]))
    if kind == "backfill":
        words = ["backfill", draw(NAME), "--from", draw(MOMENT), "--to", draw(MOMENT)]
        parts = draw(st.sampled_from(["0", "1", "2", "33", "x"]))
        words += draw(st.sampled_from([[], ["--as", draw(TEXT)], ["--parallel", parts]]))
    elif kind == "import":
        blob = st.sampled_from(["azure-functions-db-text.json", "azure-functions-db-two-keys.json", "poller.toml"])
        words = ["import", "azure-functions-db", draw(st.one_of(blob, TEXT)), "--name", draw(NAME)]
    else:
        words = ["watch", draw(NAME), "--count", "1", "--interval", draw(st.one_of(st.just("50ms"), TEXT))]
    return words + draw(FLAGS)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Console:
    project = Project(tmp_path_factory.mktemp("fuzzed"))
    project.configure("orders")
    project.insert(30)
    for path in FIXTURES.glob("*.json"):
        shutil.copy(path, project.folder)
    return Console(project)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(words=commands())
def test_nothing_unexpected(console: Console, words: list[str]) -> None:
    before = console.everything()
    ended = console.run(*words)
    assert ended.code in CODES
    assert "This is a fault in poller" not in ended.err
    if ended.code in (2, 3, 4) or "--dry-run" in words or "--yes" not in words:
        assert console.everything() == before
