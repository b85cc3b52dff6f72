"""`poller rebind`; and a typo in the configured source of a poller that has a checkpoint: first of all, put it back."""

from __future__ import annotations

from tests.cli.console import Console, again, changed, ran
from tests.cli.project import Project
from tests.support.cases import each


def test_a_changed_source_is_accepted_with_the_cursor_kept(project: Project) -> None:
    console = ran(project)
    project.execute("CREATE TABLE orders2 (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    project.execute("INSERT INTO orders2 SELECT * FROM orders")
    changed(project, 'table = "orders"', 'table = "orders2"\nfilter = "id > 0"')
    assert console.run("run", "--once").code == 4
    ended = console.run("rebind", "orders", "--yes", "--dry-run")
    assert "table: orders -> orders2" in ended.out
    assert "filter: none -> id > 0" in ended.out
    before = console.state()
    output = console.done("rebind", "orders", "--yes", "--reason", "moved")
    assert {one["field"] for one in output["source_differences"]} == {"table", "filter"}
    assert output["before"]["cursor"] == output["after"]["cursor"]
    assert output["after"]["fencing_token"] == before["lease"]["fencing_token"] + 1
    assert "5 rows up to the cursor" in output["notes"][0]
    assert console.run("run", "--once").code == 0


def test_nothing_to_do_says_so_and_writes_nothing(project: Project) -> None:
    console = ran(project)
    before = console.everything()
    ended = console.run("rebind", "orders")
    assert ended.code == 0
    assert "already" in ended.out
    assert console.everything() == before


def test_a_cursor_that_means_nothing_in_the_new_source_is_refused(project: Project) -> None:
    console = ran(project)
    changed(project, 'pk_columns = ["id"]', 'pk_columns = ["updated_at", "id"]')
    console.refused(4, "rebind", "orders", "--yes", says="reset-to-beginning orders")


def test_what_is_skipped_or_comes_again_is_not_claimed_to_be_known(project: Project) -> None:
    console = ran(project)
    project.execute("CREATE TABLE orders2 (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    project.insert(43, table="orders2")
    changed(project, 'table = "orders"', 'table = "orders2"')
    output = console.done("rebind", "orders", "--dry-run")
    assert (output["effect"]["skipped"], output["effect"]["redelivered"]) == (None, None)
    assert output["effect"]["not_counted"]
    assert "none is skipped" not in console.run("rebind", "orders", "--dry-run").out


def test_a_database_file_that_is_not_there_is_refused(project: Project) -> None:
    console = ran(project)
    changed(project, "sqlite:///shop.db", "sqlite:///nosuch.db")
    console.refused(1, "rebind", "orders", "--yes", says="nosuch.db")
    assert not (project.folder / "nosuch.db").exists()


def test_a_column_that_writes_its_times_otherwise_is_refused(project: Project) -> None:
    console = ran(project)
    project.execute("CREATE TABLE iso (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    project.execute("INSERT INTO iso SELECT id, replace(updated_at, ' ', 'T') || 'Z' FROM orders")
    changed(project, 'table = "orders"', 'table = "iso"')
    line = console.refused(4, "rebind", "orders", "--yes", says="in another form")
    assert "poller reset-to-cursor orders" in line


def test_an_unreachable_database_is_accepted_without_a_count(project: Project) -> None:
    console = ran(project)
    changed(project, "sqlite:///shop.db", "postgresql+psycopg://u:s3cret@127.0.0.1:1/shop")
    ended = console.run("rebind", "orders", "--yes")
    assert ended.code == 0, ended.err
    assert "none is skipped" not in ended.out
    assert "cannot be reached" in ended.out
    assert "s3cret" not in ended.out


TYPOS = [
    ('table = "orders"', 'table = "ordres"', "table = orders (it says ordres)"),
    ('"sqlite:///shop.db"', '"sqlite:///shp.db"', "database.database = "),
    ('cursor_column = "updated_at"', 'cursor_column = "updated"', "cursor_column = updated_at (it says updated)"),
]


@each(("old", "new", "says"), TYPOS)
def test_a_source_that_does_not_exist_is_to_be_put_back(project: Project, old: str, new: str, says: str) -> None:
    console = again(project)
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
