"""Backfill and watch as processes, with state in Azurite and rows in PostgreSQL."""

from __future__ import annotations

import json
import signal
from collections import Counter

import psycopg

from tests.cli.databases import done
from tests.cli.project import Project, end, wait_until
from tests.support.schemas import validator

MINUTES = ("backfill", "orders", "--from", "2026-01-01T01:00+01:00", "--to", "2026-01-02", "--yes")


def fill(db: psycopg.Connection) -> None:
    db.execute("TRUNCATE orders")
    db.execute(
        "INSERT INTO orders SELECT n, timestamptz '2026-01-01Z' + n * interval '1 min' FROM generate_series(0, 2879) n"
    )


def test_parts_killed_at_once_go_on_and_every_row_of_the_day_is_delivered(
    project: Project, servers: psycopg.Connection
) -> None:
    fill(servers)
    text = (project.folder / "poller.toml").read_text()
    text = text.replace('lease_ttl = "60s"', 'lease_ttl = "3s"')  # what was killed is waited for
    project.write(text.replace('handler = "', 'batch_size = 50\nhandler = "'))
    handlers = (project.folder / "handlers.py").read_text()
    (project.folder / "handlers.py").write_text(handlers.replace("while (HERE", "time.sleep(0.05)\n    while (HERE"))
    first = project.start(*MINUTES, "--parallel", "3")
    wait_until(lambda: len(project.lines("seen")) >= 300)
    first.send_signal(signal.SIGKILL)
    end(first)

    output = done(project, *MINUTES, "--parallel", "3", schema="backfill").json

    assert output["finished"] is True
    assert 0 < output["rows"] < 1440, "what was committed before the kill does not come again"
    seen = Counter(int(line.split()[1]) for line in project.lines("seen"))
    assert set(seen) == set(range(1440)), "the whole day and nothing else"
    assert sum(seen.values()) - 1440 <= 3 * 50, "twice only what the killed process had in hand"
    assert [part["begins"] for part in output["parts"]] == [
        "2026-01-01T00:00:00.000000Z",
        "2026-01-01T08:00:00.000000Z",
        "2026-01-01T16:00:00.000000Z",
    ]
    assert done(project, *MINUTES, schema="backfill").json["already_done"] is True


def test_while_a_transaction_may_still_write_into_the_range_it_is_refused(
    project: Project, servers: psycopg.Connection
) -> None:
    info = servers.info
    with psycopg.connect(host=info.host, port=info.port, user=info.user, dbname=info.dbname) as late:
        late.execute("INSERT INTO orders VALUES (77, now())")
        row = servers.execute(
            "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
        ).fetchone()
        assert row is not None
        ask = ("backfill", "orders", "--from", "2026-01-03", "--to", row[0], "--yes")
        refused = project.run(*ask)
        assert refused.code == 3
        assert "Rows may still appear below --to" in refused.error
        late.commit()
    wait_until(lambda: project.run(*ask).code == 0)
    assert [line.split()[1] for line in project.lines("seen")] == ["77"]


def test_watch_tells_of_each_look_on_one_line(project: Project, servers: psycopg.Connection) -> None:
    assert project.run("run", "--once").code == 0
    ended = project.run("watch", "--json", "--count", "2", "--interval", "100ms")
    assert ended.code == 0
    for line in ended.out.splitlines():
        validator("watch").validate(json.loads(line))
    assert ended.events[1]["pollers"][0]["rows_per_second"] == 0
