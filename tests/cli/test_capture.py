"""`poller capture` in a terminal and in scripts: what it prints, asks, refuses and leaves."""

from __future__ import annotations

import json

import pytest

from tests.cli.project import Ended, Project
from tests.support.schemas import validator


@pytest.fixture(autouse=True)
def configured(project: Project) -> None:
    project.configure("orders")


def done(project: Project, *arguments: str, code: int = 0) -> Ended:
    ended = project.run("capture", "orders", *arguments)
    assert ended.code == code, ended.err
    if "--json" in arguments:
        validator("capture").validate(json.loads(ended.out))
    return ended


def names(project: Project) -> list[str]:
    return [name for (name,) in project.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'poller%'")]


def test_printed_installed_verified_and_removed(project: Project) -> None:
    project.insert(3)
    printed = done(project)
    assert "CREATE TRIGGER" in printed.out
    assert "bytes and" in printed.out
    assert names(project) == []
    assert done(project, "--install", "--dry-run").out == printed.out
    assert done(project, "--install", "--yes", "--json").json["changed"] is True
    project.execute("UPDATE orders SET updated_at = '2026-01-02 00:00:00' WHERE id = 2")
    project.execute("DELETE FROM orders WHERE id = 3")
    proof = done(project, "--verify", "--json").json["proof"]
    assert (proof["changes"], proof["rows"], proof["breaks"]) == (2, 2, 0)
    assert "captured already" in done(project, "--install", "--yes").out
    assert "ends with a gap" in done(project, "--remove", "--yes").out
    assert names(project) == ["poller_captures", "poller_orders_changes"]
    assert done(project, "--remove", "--changes", "--yes", "--json").json["change_table"] is None
    assert names(project) == []


def test_a_chain_that_does_not_hold_ends_with_1_and_no_value(project: Project) -> None:
    done(project, "--install", "--yes")
    project.insert(2)
    project.execute("UPDATE poller_orders_changes SET new = json_set(new, '$.updated_at', 's3cret') WHERE id = 1")
    for arguments in (("--verify",), ("--verify", "--json")):
        ended = done(project, *arguments, code=1)
        assert "differs from what it left in updated_at" in ended.out
        assert "s3cret" not in ended.out + ended.err


def test_wrong_words_are_refused_and_nothing_is_asked(project: Project) -> None:
    for arguments, says in (
        (("--install", "--remove"), "exclude each other"),
        (("--changes",), "goes with --remove"),
        (("--verify", "--no-old"), "go with --print"),
        (("--accept", "all"), "'all' is nothing"),
        (("--url-env", "NONE_SUCH"), "NONE_SUCH, which is not set"),
    ):
        assert says in done(project, *arguments, code=2).error
    assert "Add --yes" in done(project, "--install", code=3).error
    assert "poller capture orders --install" in done(project, "--verify", code=3).error
    assert names(project) == []


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            'url = "mssql+pymssql://sa:s3cret@127.0.0.1/shop"\ntable = "orders"',
            "captures no changes in mssql databases",
        ),
        ('url = "sqlite:///shop.db"\nquery = "SELECT * FROM orders"', "its rows come from a query"),
        ('url = "sqlite:///none.db"\ntable = "orders"', "there is no such file"),
        ('url = "postgresql://me:s3cret@127.0.0.1:1/shop"\ntable = "orders"', "orders: "),
    ],
)
def test_a_source_that_cannot_be_captured_is_refused(project: Project, source: str, says: str) -> None:
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('url = "sqlite:///shop.db"\ntable = "orders"', source))
    for arguments in (("--print",), ("--install", "--yes")):
        ended = project.run("capture", "orders", *arguments)
        assert ended.code in (1, 3)
        assert says in ended.error
        assert "s3cret" not in ended.err
    assert not (project.folder / "none.db").exists()
