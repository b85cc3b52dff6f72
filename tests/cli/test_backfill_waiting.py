"""Rows of a backfill that fail: they are set aside, listed, replayed, added and discarded by the backfill's name."""

from __future__ import annotations

import json

import pytest

from tests.cli.backfills import RANGE, finished, ids, states
from tests.cli.console import Console
from tests.cli.project import NOTING, Project

BACKFILL = (*RANGE, "--yes", "--as", "again")
FAILING = NOTING.replace(
    '    with (HERE / "seen")',
    """    bad = (HERE / "bad").read_text().split()
    for row in batch:
        if str(row["id"]) in bad[1:]:
            batch.reject(row, "no such customer") if bad[0] == "rejects" else batch.fail(row, "it is down")
    batch = Taken(batch, bad)
    with (HERE / "seen")""",
).replace(
    "def handle",
    """class Taken:
    def __init__(self, batch, bad):
        self.poller_name, self.fencing_token = batch.poller_name, batch.fencing_token
        self.rows = [row for row in batch if str(row["id"]) not in bad[1:]]
    def __iter__(self):
        return iter(self.rows)

def handle""",
)
OPTIONS = """batch_size = 10
max_attempts = 1
"""
LATER = 'on_poison = "quarantine"\nretry_backoff = "1h"\nretry_backoff_max = "1h"'


def shop(project: Project, way: str, *bad: int, options: str = LATER) -> Console:
    """A table of which these rows fail, in this way."""
    project.configure("orders", handlers=FAILING, poller=OPTIONS + options)
    project.execute("ALTER TABLE orders ADD COLUMN customer TEXT")
    rows = [(n, f"2026-01-01 00:00:{n // 10:02d}", f"c{n % 5}") for n in range(1, 80)]
    project.execute("INSERT INTO orders VALUES (?, ?, ?)", *rows)
    fails(project, way, *bad)
    return Console(project)


def fails(project: Project, way: str, *bad: int) -> None:
    (project.folder / "bad").write_text(" ".join([way, *map(str, bad)]))


def rejected(console: Console) -> str:
    """The id of the one row that waits for a person."""
    (row,) = console.run("quarantine", "list", "again", "--json").json["pending"]
    return str(row["id"])


@pytest.mark.parametrize("version", [(), ("--current",)])
def test_a_row_that_waits_is_replayed_by_its_name(project: Project, version: tuple[str, ...]) -> None:
    console = shop(project, "rejects", 25)
    assert console.run(*BACKFILL).code == 3
    fails(project, "")
    ended = console.run("quarantine", "replay", "again", "--all", "--yes", *version)
    assert ended.code == 0, (ended.out, ended.err)
    assert finished(console.run(*BACKFILL, "--json"))["rows"] == 0
    assert sorted(ids(project)) == list(range(20, 50))


def test_a_version_that_left_the_range_is_not_handed_over(project: Project) -> None:
    console = shop(project, "rejects", 25)
    console.run(*BACKFILL)
    project.execute("UPDATE orders SET updated_at = '2026-01-01 00:00:07' WHERE id = 25")
    fails(project, "")
    for version, says in ((), "which version"), (("--current",), "as it was"):
        ended = console.run("quarantine", "replay", "again", "--id", rejected(console), "--yes", *version)
        assert ended.code == 3
        assert says in ended.error
    assert console.run("quarantine", "replay", "again", "--all", "--yes", "--as-it-was").code == 0
    finished(console.run(*BACKFILL, "--json"))


def test_later_rows_of_an_ordering_key_wait(project: Project) -> None:
    console = shop(project, "rejects", 25, options=f'{LATER}\nordering_key = ["customer"]')
    assert console.run(*BACKFILL).code == 3
    behind = {row["pk"]["id"] for row in console.run("quarantine", "list", "again", "--json").json["aside"]}
    assert behind == {30, 35, 40, 45}
    assert not behind.intersection(ids(project))
    fails(project, "")
    console.run("quarantine", "replay", "again", "--all", "--yes")
    finished(console.run(*BACKFILL, "--json"))
    assert ids(project)[-5:] == [25, 30, 35, 40, 45]


def test_a_row_ahead_of_it_is_set_aside_by_hand(project: Project) -> None:
    console = shop(project, "fails", 35, options='on_poison = "halt"\nretry_backoff = "1ms"')
    assert console.run(*BACKFILL).code == 1
    output = console.done("quarantine", "add", "again", "--pk", "id=35", "--yes")
    assert [row["pk"] for row in output["rows"]] == [{"id": 35}]
    for pk, code, says in ("25", 3, "behind this row"), ("60", 2, "reads no row"), ("19", 2, "reads no row"):
        console.refused(code, "quarantine", "add", "again", "--pk", f"id={pk}", "--yes", says=says)
    fails(project, "")
    finished(console.run(*BACKFILL, "--retry", "--json"))
    assert set(ids(project)) == set(range(20, 50))


def test_a_row_that_works_later_is_counted(project: Project) -> None:
    console = shop(project, "fails", 25)
    assert console.run(*BACKFILL).code == 3
    body = states(project)["again"]
    (row,) = body["aside"]
    del row["retry_at"]
    console.put(json.dumps(body), "state/shop/again.json")
    fails(project, "")
    assert finished(console.run(*BACKFILL, "--json"))["rows"] == 1
