"""A typo in the configured source of a poller that has a checkpoint: first of all, put it back."""

from __future__ import annotations

import pytest

from tests.cli.console import Console, changed, ran
from tests.cli.project import Project

TYPOS = [
    ('table = "orders"', 'table = "ordres"', "table = orders (it says ordres)"),
    ('"sqlite:///shop.db"', '"sqlite:///shp.db"', "database.database = "),
    ('cursor_column = "updated_at"', 'cursor_column = "updated"', "cursor_column = updated_at (it says updated)"),
]


@pytest.mark.parametrize(("old", "new", "says"), TYPOS, ids=["table", "database", "column"])
def test_a_source_that_does_not_exist_is_to_be_put_back(project: Project, old: str, new: str, says: str) -> None:
    console = ran(project)
    changed(project, old, new)
    for command in (("run", "--once"), ("peek", "orders")):
        error = console.run(*command).err
        assert error.index(f"Put it back: {says}") < error.index("poller rebind")
        assert error.index("cannot be read") < error.index("belongs to another source")
    for looking in ("status", "check"):
        ended = console.run(looking, "orders")
        shown = ended.out + ended.err
        assert ended.code == 4
        assert " ".join(shown.split()).count(f"Put it back: {says}") == 1


def test_a_rebind_to_a_missing_table_names_the_former_one(project: Project) -> None:
    console = ran(project)
    changed(project, *TYPOS[0][:2])
    console.refused(1, "rebind", "orders", "--yes", says=f"Put it back: {TYPOS[0][2]}")
    ended = console.run("reset-to-beginning", "orders", "--yes", "--dry-run")
    assert f"Put it back: {TYPOS[0][2]}" in " ".join(ended.out.split())


def test_a_server_that_does_not_answer_is_named_before_a_rebind(project: Project) -> None:
    console: Console = ran(project)
    changed(project, '"sqlite:///shop.db"', '"postgresql+psycopg://me@127.0.0.1:1/shop"')
    error = console.run("run", "--once").err
    assert "cannot be reached" in error
    assert error.index("database.host = none (it says 127.0.0.1)") < error.index("poller rebind")
    ended = console.run("rebind", "orders", "--yes", "--dry-run")
    assert ended.code == 0
    assert "Put it back" in ended.out


def test_a_source_that_exists_is_a_matter_of_rebind(project: Project) -> None:
    console = ran(project)
    changed(project, 'pk_columns = ["id"]', 'pk_columns = ["id"]\nfilter = "id > 0"')
    assert "Put it back" not in console.run("run", "--once").err
