"""docs/performance.md names options that exist, with their defaults, and the figures of the last `make bench`."""

from __future__ import annotations

import tomllib

from poller.config import PollerOptions, SourceOptions
from scripts.docs_performance import PAGE, performance
from tests.repo.docs.blocks import ROOT

TEXT = (ROOT / PAGE).read_text()
FIELDS = {
    field.alias or name: field
    for model in (PollerOptions, SourceOptions)
    for name, field in model.model_fields.items()
}  # fmt: skip


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without the head."""
    text = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in cells[1:] if set(row[0]) != {"-"}]


def test_every_option_of_the_table_exists_with_its_default() -> None:
    listed = {row[0]: row[1] for row in rows("What each option costs and gains")}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name, default in listed.items():
        if name.startswith("extra "):
            assert name.removeprefix("extra ").strip("`") in extras
            continue
        field = FIELDS[name.strip("`")]
        if isinstance(field.default, str) and not field.default.endswith("MB"):
            assert default == f"`{field.default}`"
        elif isinstance(field.default, int):
            assert default == str(field.default)


def test_every_option_that_trades_speed_is_in_the_table() -> None:
    listed = {row[0].strip("`") for row in rows("What each option costs and gains")}
    trades = {
        *("batch_size", "batch_bytes", "page_size", "read_ahead", "max_uncommitted"),
        *("concurrency", "ordering_key", "isolation", "json", "format", "extra `speed"),
    }
    assert trades <= listed


def test_what_a_crash_repeats_is_said_for_every_commit() -> None:
    said = " ".join(row[0] for row in rows("What a crash repeats"))
    assert all(name in said for name in ("max_uncommitted = 1", "max_uncommitted = 4", "concurrency = N"))
    assert PollerOptions().most_uncommitted == 1
    assert "(4 x N)" in TEXT
    assert PollerOptions(concurrency=8).most_uncommitted == 32


def test_the_figures_are_those_of_the_last_run() -> None:
    assert performance() == TEXT
