"""`poller reset-to-beginning` and `poller reset-to-cursor`: moments and numbers as they are typed, too."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.console import STATE, Console, again, changed, ran
from tests.cli.databases import configure
from tests.cli.project import NOTING, Project, end
from tests.support.cases import each
from tests.support.services import wait_until
from tests.support.waiting import waits

VALUE = ("--value", "2026-01-01T00:00:00", "--pk", "id=2")


def test_everything_is_delivered_again(project: Project) -> None:
    console = ran(project)
    before = console.document()
    output = console.done("reset-to-beginning", "orders", "--yes", "--reason", "again")
    assert output["effect"]["redelivered"] == 5
    assert output["effect"]["skipped"] == 0
    assert (output["before"]["fencing_token"], output["after"]["fencing_token"]) == (1, 2)
    assert (output["after"]["cursor"], output["after"]["generation"]) == (None, 1)
    assert console.document(output["backup"]) == before, "the backup is exactly what was replaced"
    change = console.state()["control"]["last_change"]
    assert (change["id"], change["kind"], change["reason"]) == (output["id"], "reset-to-beginning", "again")
    assert json.loads(console.run("run", "--once", "--json").out.splitlines()[-1])["rows"] == 5


def test_the_next_row_is_the_one_after_the_named(project: Project) -> None:
    console = ran(project)
    output = console.done("reset-to-cursor", "orders", *VALUE, "--yes")
    assert output["after"]["cursor"] == {
        "kind": "timestamp+pk",
        "value": "2026-01-01 00:00:00",
        "tiebreaker": {"id": 2},
    }, "in the column's own form"
    assert output["effect"]["redelivered"] == 3
    assert [row["id"] for row in console.run("peek", "orders", "--json").json["rows"]] == [3, 4, 5]


def test_undo_restores_what_the_reset_changed(project: Project) -> None:
    console = ran(project)
    error = {"type": "ValueError", "message": "no", "at": None, "batch_id": "b"}
    console.edit(
        control={"halted": True, "by": "poller", "reason": "failed", "at": "2026-01-01T00:00:00.000000Z"},
        delivery={"attempts": 5, "last_error": error},
        checkpoint={"metadata": {"row_count": 5, "theirs": 1}},
    )
    before = console.state()
    reset = console.done("reset-to-cursor", "orders", *VALUE, "--yes")
    assert console.state()["control"]["halted"] is False
    assert console.state()["delivery"]["attempts"] == 0
    undone = console.undo(reset)
    after = console.state()
    assert undone["effect"]["skipped"] == 0
    for part in ("cursor", "last_successful_batch_id", "updated_at", "metadata"):
        assert after["checkpoint"][part] == before["checkpoint"][part], part
    assert after["delivery"] == before["delivery"]
    assert {k: after["control"][k] for k in ("halted", "by", "reason", "at")} == {
        k: before["control"][k] for k in ("halted", "by", "reason", "at")
    }
    assert after["lease"]["fencing_token"] == 3
    assert after["checkpoint"]["generation"] == 2


def test_an_undo_works_after_a_worker_went_on(project: Project) -> None:
    console = ran(project)
    reset = console.done("reset-to-beginning", "orders", "--yes")
    assert console.run("run", "--once").code == 0
    project.insert(3)
    assert console.run("run", "--once").code == 0
    assert console.undo(reset)["after"]["cursor"]["tiebreaker"] == {"id": 5}
    assert json.loads(console.run("run", "--once", "--json").out.splitlines()[-1])["rows"] == 3


def test_without_a_count_only_a_way_forward_counts_as_skipping(project: Project) -> None:
    console = ran(project)
    exported = str(project.folder / "at-5.json")
    assert console.run("export-checkpoint", "orders", exported).code == 0
    (project.folder / "shop.db").rename(project.folder / "away.db")
    output = console.done("reset-to-beginning", "orders", "--yes")
    assert output["effect"]["redelivered"] is None
    assert "shop.db" in output["effect"]["not_counted"]
    console.refused(3, "reset-to-checkpoint", "orders", exported, "--yes", says="not counted")
    assert console.done("reset-to-checkpoint", "orders", exported, "--yes", "--allow-skip")["changed"] is True
    console.refused(1, "reset-to-cursor", "orders", *VALUE, "--yes", says="shop.db")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--value", "yesterday", "--pk", "id=2"), "updated_at"),
        (("--value", "2026-01-01T00:00:00", "--pk", "id=two"), "column id holds integer"),
        (("--value", "2026-01-01T00:00:00"), "--pk id="),
        (("--value", "2026-01-01T00:00:00", "--pk", "id=1", "--pk", "id=2"), "given twice"),
        (("--value", "2026-01-01T00:00:00", "--pk", "idd=1"), "Did you mean id?"),
        (("--value", "2026-01-01T00:00:00", "--pk", "id"), "COLUMN=VALUE"),
        (("--value", "2026-01-01T00:00:00", "--pk", f"id={10**30}"), "the key cannot hold it"),
        (("--value", "2026-01-01T00:00:00+02:00", "--pk", "id=1"), "zone"),
        (("--value", "", "--pk", "id=1"), "updated_at"),
        (("--pk", "id=1"), "--value"),
    ],
)
def test_a_cursor_that_cannot_be_is_a_usage_error(project: Project, arguments: tuple[str, ...], says: str) -> None:
    ran(project).refused(2, "reset-to-cursor", "orders", *arguments, "--yes", says=says)


def test_times_with_and_without_zone_mean_the_same_moment(project: Project, postgres_db: str) -> None:
    import psycopg
    from sqlalchemy import make_url

    url = make_url(postgres_db)
    with psycopg.connect(
        host=url.host, port=url.port, user=url.username, password=url.password, dbname=url.database
    ) as db:
        db.execute("CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz NOT NULL)")
        db.execute("INSERT INTO orders VALUES (1, '2026-01-01T12:00Z'), (2, '2026-01-02T12:00Z')")
    configure(project, postgres_db, 'cursor_time_zone = "UTC"')
    console = Console(project)
    assert console.run("run", "--once").code == 0
    for text in ("2026-01-01T12:00:00Z", "2026-01-01T12:00:00", "2026-01-01 13:00:00+01:00", "2026-01-01T07:00-05:00"):
        output = console.done("reset-to-cursor", "orders", "--value", text, "--pk", "id=1", "--dry-run")
        assert output["after"]["cursor"]["value"] == "2026-01-01T12:00:00.000000Z", text
        assert output["effect"]["redelivered"] == 1


def test_a_live_lease_is_refused_unless_it_is_broken(project: Project) -> None:
    project.configure("orders", handlers=NOTING, poller='lease_ttl = "60s"\nheartbeat_interval = "500ms"')
    project.insert(2)
    console = Console(project)
    (project.folder / "wait").touch()
    worker = project.start("run", "--once", "--json")
    wait_until(lambda: project.lines("started"))
    ended = console.run("reset-to-beginning", "orders", "--yes")
    assert ended.code == 3
    assert "--break-lease" in ended.error
    output = console.done("reset-to-beginning", "orders", "--yes", "--break-lease")
    assert output["after"]["owner_id"].startswith("operator/")
    assert 60 <= output["starts_after_seconds"] <= 66
    assert json.loads(console.run("run", "--once", "--json").out.splitlines()[-1])["outcome"] == "held_elsewhere"
    (project.folder / "wait").unlink()
    ended = end(worker)
    assert ended.code == 1
    assert "broken" in [event.get("reason") for event in ended.events]
    state = console.state()
    assert state["checkpoint"]["cursor"] is None, "the broken worker committed nothing"
    assert state["lease"]["fencing_token"] == 2
    undone = console.undo(output)
    assert undone["after"]["owner_id"].startswith("operator/"), "an operator's own hold needs no breaking, but stays"


def test_a_changed_source_may_begin_anew(project: Project) -> None:
    console = ran(project)
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('pk_columns = ["id"]', 'pk_columns = ["id"]\nfilter = "id > 1"'))
    assert console.run("run", "--once").code == 4
    output = console.done("reset-to-beginning", "orders", "--yes")
    assert output["source_differences"] == [{"field": "filter", "before": None, "after": "id > 1"}]
    assert any("former source" in note for note in output["notes"])
    assert console.run("run", "--once").code == 0
    assert console.state()["checkpoint"]["metadata"]["row_count"] == 4


def test_a_dry_run_refuses_as_the_command_does_and_changes_nothing(project: Project) -> None:
    console = ran(project)
    before = console.everything()
    output = console.done("reset-to-beginning", "orders", "--dry-run")
    assert (output["changed"], output["effect"]["redelivered"], output["backup"]) == (False, 5, None)
    assert console.everything() == before
    console.done("reset-to-beginning", "orders", "--yes")
    console.refused(3, "reset-to-cursor", "orders", *VALUE, "--dry-run", says="--allow-skip")


def test_production_wants_a_reason(project: Project) -> None:
    console = ran(project)
    text = (project.folder / "poller.toml").read_text()
    project.write('environment = "production"\n' + text)
    line = console.refused(3, "reset-to-beginning", "orders", "--yes")
    assert "--reason TEXT" in line
    assert "--yes --reason TEXT" in console.refused(3, "reset-to-beginning", "orders")
    console.refused(3, "reset-to-beginning", "orders", "--yes", "--confirm", "invoices")
    assert console.done("pause", "orders", "--yes")["changed"] is True
    reset = console.done("reset-to-beginning", "orders", "--yes", "--reason", "new prices")
    console.refused(3, "reset-to-checkpoint", "orders", reset["backup"], "--yes", "--reason", " ", says="--reason TEXT")
    console.done("reset-to-checkpoint", "orders", reset["backup"], "--confirm", "orders")


def source_changed(console: Console) -> None:
    changed(console.project, 'pk_columns = ["id"]', 'pk_columns = ["id"]\nfilter = "id > 0"')


def rows_wait(console: Console) -> None:
    with console.store() as store:
        waits(store, pending=[2])


@each(
    ("prepare", "command"),
    [
        (source_changed, ("rebind", "orders")),
        (rows_wait, ("quarantine", "discard", "orders", "--all")),
        (lambda _: None, ("checkpoint", "clone", "orders", "orders-v2", "--overwrite")),
    ],
)
def test_production_wants_a_reason_if_something_is_lost(
    project: Project, prepare: Callable[[Console], None], command: tuple[str, ...]
) -> None:
    """A clone that is new, a pause and rows that are delivered once more lose nothing."""
    console = again(project, in_production)
    prepare(console)
    console.refused(3, *command, "--yes", says="--reason TEXT")
    assert console.done(*command, "--yes", "--reason", "new prices")["changed"] is True


def in_production(project: Project) -> Console:
    console = ran(project)
    project.write('environment = "production"\n' + (project.folder / "poller.toml").read_text())
    assert console.done("checkpoint", "clone", "orders", "orders-v2", "--yes")["changed"] is True
    return console


TIES = [(n, f"2026-04-07 01:23:{n // 10:02d}.000") for n in range(1, 31)]
"""Ten rows on each second, but nine on the first."""


def shop(project: Project) -> Console:
    project.configure("orders")
    project.execute("INSERT INTO orders VALUES (?, ?)", *TIES)
    console = Console(project)
    assert console.run("run", "--once").code == 0
    return console


@each("typed", ["2026-04-07 01:23:02", "2026-04-07T01:23:02", "2026-04-07 01:23:02.0", "2026-04-07T01:23:02.000000"])
def test_the_rows_behind_the_named_one_come_again_and_no_other(project: Project, typed: str) -> None:
    console = again(project, shop)
    output = console.done("reset-to-cursor", "orders", "--value", typed, "--pk", "id=25", "--yes")
    assert output["after"]["cursor"]["value"] == "2026-04-07 01:23:02.000"
    assert output["effect"]["redelivered"] == 5
    assert [row["id"] for row in console.run("peek", "orders", "--json").json["rows"]] == [26, 27, 28, 29, 30]


def test_what_says_more_than_the_rows_do_is_kept(project: Project) -> None:
    console = shop(project)
    output = console.done("reset-to-cursor", "orders", "--value", "2026-04-07 01:23:01.12345", "--pk", "id=1", "--yes")
    assert output["after"]["cursor"]["value"] == "2026-04-07 01:23:01.12345"
    assert output["effect"]["redelivered"] == 11


def test_a_row_that_is_written_shorter_is_meant_as_it_stands(project: Project) -> None:
    console = shop(project)
    project.execute("INSERT INTO orders VALUES (?, ?)", (40, "2026-04-07 01:23:02"))
    output = console.done(
        "reset-to-cursor", "orders", "--value", "2026-04-07T01:23:02", "--pk", "id=40", "--yes", "--allow-skip"
    )
    assert output["after"]["cursor"]["value"] == "2026-04-07 01:23:02"
    assert console.run("peek", "orders", "--json").json["rows"][0]["id"] == 20


def test_a_range_has_one_backfill_however_its_ends_are_written(project: Project) -> None:
    console = shop(project)
    first = console.run(
        "backfill", "orders", "--from", "2026-04-07 01:23:01", "--to", "2026-04-07 01:23:02", "--yes", "--json"
    )
    assert (first.code, first.json["rows"]) == (0, 10), first.err
    for begins, ends in (("T01:23:01", "T01:23:02"), (" 01:23:01.000", " 01:23:02.0")):
        again = console.run(
            "backfill", "orders", "--from", f"2026-04-07{begins}", "--to", f"2026-04-07{ends}", "--yes", "--json"
        )
        assert again.json["name"] == first.json["name"]
        assert again.json["already_done"] is True


HUGE = 10**30


@pytest.fixture
def numbered(project: Project) -> Console:
    """A poller of integer keys whose document holds one that SQLite cannot."""
    project.configure("orders")
    project.insert(5)
    console = Console(project)
    assert console.run("run", "--once").code == 0
    state = console.state(STATE)
    state["checkpoint"]["cursor"]["tiebreaker"]["id"] = HUGE
    console.put(json.dumps(state))
    return console


@each("command", [("status",), ("peek", "orders"), ("run", "--once"), ("check",)])
def test_a_document_with_a_key_that_no_column_holds(numbered: Console, command: tuple[str, ...]) -> None:
    ended = numbered.run(*command)
    shown = ended.out + ended.err
    assert ended.code == 1
    assert "out of the column's range" in shown
    assert "fault in poller" not in shown


def test_a_typed_number_that_no_column_holds(project: Project) -> None:
    project.configure("orders")
    project.insert(5)
    text = (project.folder / "poller.toml").read_text()
    timed, counted = 'cursor_column = "updated_at"\ncursor_time_zone = "UTC"', 'cursor_column = "id"'
    (project.folder / "poller.toml").write_text(text.replace(timed, counted + '\ncursor_kind = "integer+pk"'))
    ended = Console(project).run("reset-to-cursor", "orders", "--value", "9" * 20, "--yes")
    assert ended.code == 2, ended.err
    assert "range" in ended.error
    assert "fault in poller" not in ended.error


def test_a_reset_puts_another_cursor_in_its_place(numbered: Console) -> None:
    assert numbered.run("reset-to-beginning", "orders", "--yes").code == 0
    assert numbered.run("run", "--once").code == 0
    assert numbered.state(STATE)["checkpoint"]["cursor"]["tiebreaker"] == {"id": 5}
