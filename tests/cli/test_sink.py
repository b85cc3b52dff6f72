"""`poller sink ddl`: what is printed makes the tables, and needs neither a configuration nor a database."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from tests.cli.project import Project
from tests.support.cases import each


def test_what_is_printed_makes_the_tables(project: Project) -> None:
    (project.folder / "poller.toml").unlink(missing_ok=True)
    ended = project.run("sink", "ddl", "sqlite:///shop.db")
    assert (ended.code, ended.err) == (0, "")
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(ended.out)
        made = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    assert made == [("poller_applied",), ("poller_fence",)]
    assert not (project.folder / "shop.db").exists(), "it connects to nothing"


@each(
    ("url", "own"),
    [("postgresql://", "BYTEA"), ("mysql://h/d", "ENGINE=InnoDB"), ("mariadb+pymysql://h/d", "LONGBLOB")],
)
def test_each_database_has_its_own_statements(project: Project, url: str, own: str) -> None:
    fence, applied = project.run("sink", "ddl", url, "--json").json["statements"]
    assert fence.startswith("CREATE TABLE IF NOT EXISTS poller_fence")
    assert own in fence + applied


@each(
    ("url", "message"),
    [
        ("oracle://scott:tiger@h/d", "A sink in oracle cannot be fenced"),
        ("shop", "SQLAlchemy URL"),
        ("nosuch://clerk:s3cret@h/d", "A sink in nosuch cannot be fenced"),
    ],
)
def test_what_cannot_be_fenced_is_refused_without_its_password(project: Project, url: str, message: str) -> None:
    ended = project.run("sink", "ddl", url)
    assert ended.code == 2
    assert message in ended.error
    assert "tiger" not in ended.err
    assert "s3cret" not in ended.err
