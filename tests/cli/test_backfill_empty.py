"""`poller backfill` over a table without a row."""

from __future__ import annotations

from tests.cli.console import Console
from tests.cli.project import Project
from tests.support.schemas import validator


def test_a_table_without_rows_is_told_to_programs_too(project: Project) -> None:
    project.configure("orders")
    range_ = ("--from", "2026-01-01 00:00:00", "--to", "2026-01-01 00:00:03", "--yes")
    ended = Console(project).run("backfill", "orders", *range_, "--json")
    assert ended.code == 0
    validator("backfill").validate(ended.json)
    assert (ended.json["finished"], ended.json["rows"], ended.json["pending"]) == (False, 0, 0)
    assert "no row" in Console(project).run("backfill", "orders", *range_).err
