"""Automatic prunes: what `older_than` and `outbox` in `[pollers.NAME.prune]` ask `poller run` for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from poller import App, Batch
from poller.config import load_config
from poller.databases.mysql import capture as mysql_capture
from poller.observability import PollerEvent
from poller.ports import Found
from tests.integration.prune.outbox import Outbox
from tests.integration.prune.world import World
from tests.integration.worker.clock import Clock

FAMILIES = ["postgres_db", "mariadb_db", "sqlite_url"]
HOURLY = 'prune.older_than = "1h"'


class Process:
    """Another process of the application, whose time is a clock's."""

    def __init__(self, folder: Path, environ: dict[str, str] | None = None) -> None:
        path = folder / "poller.toml"
        self.events: list[PollerEvent] = []
        self.clock = Clock()
        config = load_config(path, environ or {})
        self.app = App(config, path=path, environ=environ or {}, observers=[self.events.append], runtime=self.clock)
        self.prunes = self.app.prunes()

    def said(self) -> list[dict[str, Any]]:
        """The events so far, without their moments."""
        return [{key: value for key, value in one.as_json().items() if key != "at"} for one in self.events]

    def close(self) -> None:
        self.app.close()


@pytest.fixture(params=FAMILIES)
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """With six changes, delivered and two hours old."""
    monkeypatch.setattr(mysql_capture, "PRUNING", replace(mysql_capture.PRUNING, spared=0))
    made = World(request.getfixturevalue(request.param), tmp_path, more=HOURLY)
    aged(made)
    yield made
    made.close()


@pytest.fixture
def lite(sqlite_url: str, tmp_path: Path) -> Iterator[World]:
    made = World(sqlite_url, tmp_path, ["fast"], more=HOURLY)
    aged(made)
    yield made
    made.close()


def aged(world: World, names: tuple[str, ...] = ("fast",)) -> None:
    world.insert(6)
    world.deliver(*(name for name in world.app.pollers if name in (*names, "slow")))
    world.age(2)


def documents(world: World) -> dict[str, bytes]:
    found = {name: world.app.store.read(name) for name in world.app.store.names("state/")}
    return {name: one.body for name, one in found.items() if isinstance(one, Found)}


def test_old_changes_go_and_no_lease_is_taken(world: World) -> None:
    before = documents(world)
    with closing(Process(world.folder)) as process:
        assert process.prunes.names == ("fast", "slow")
        assert process.prunes.run() == []
        (said,) = process.said()
        assert (said["event"], said["poller"], said["rows"], said["through"]) == ("pruned", "fast", 6, 6)
        assert said["table"] == "poller_orders_changes"
        assert said["bytes"] is not None
    assert (world.left(), world.pruned_through()) == ([], 6)
    assert documents(world) == before


def test_two_processes_at_once_delete_each_row_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module(f"poller.databases.{world.family}.capture")
    monkeypatch.setattr(module, "PRUNING", replace(module.PRUNING, chunk=7))
    world.insert(200)
    world.deliver("fast", "slow")
    world.age(2)
    processes, together = [Process(world.folder) for _ in range(3)], threading.Barrier(3)

    def prune(process: Process) -> None:
        together.wait(30)
        process.prunes.run()

    threads = [threading.Thread(target=prune, args=(one,)) for one in processes]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    said = [event for process in processes for event in process.said()]
    assert {one["event"] for one in said} == {"pruned"}, said
    assert sum(one["rows"] for one in said) == 206
    assert (world.left(), world.pruned_through()) == ([], 206)
    for process in processes:
        process.close()


def test_it_is_due_once_an_hour(lite: World) -> None:
    with closing(Process(lite.folder)) as process:
        assert process.prunes.left() == 300, "the latest moment of the first one: processes do not begin at once"
        process.clock.sleep(300)
        assert process.prunes.left() == 0
        process.prunes.run()
        assert process.prunes.left() == 3600


def test_nothing_is_pruned_that_the_file_does_not_ask_for(sqlite_url: str, tmp_path: Path) -> None:
    with closing(World(sqlite_url, tmp_path, ["fast"], more="prune.readers = []")) as world:
        aged(world)
        with closing(Process(world.folder)) as process:
            assert (process.prunes.names, process.prunes.left()) == ((), float("inf"))
            assert process.prunes.run() == []
        assert len(world.left()) == 6


def test_a_refusal_is_said_and_tried_again(lite: World) -> None:
    lite.app.store.write("state/other/unreadable.json", b"{", if_tag=None)
    with closing(Process(lite.folder)) as process:
        (failed,) = process.prunes.run()
        (said,) = process.said()
        assert (said["event"], said["error_type"]) == ("prune_failed", "Refused")
        assert "not known whether other/unreadable needs its rows" in said["error"]
        assert str(failed) == said["error"]
        assert lite.left() == [1, 2, 3, 4, 5, 6]
        tag = process.app.store.read("state/other/unreadable.json")
        assert isinstance(tag, Found)
        process.app.store.remove("state/other/unreadable.json", if_tag=tag.tag)
        assert process.prunes.run() == []
    assert lite.left() == []


def test_a_database_that_is_away_is_no_refusal_and_shows_no_secret(postgres_db: str, tmp_path: Path) -> None:
    with closing(World(postgres_db, tmp_path, ["fast"], more=f'{HOURLY}\nprune.url_env = "OWNER"')) as world:
        aged(world)
        away = "postgresql+psycopg://owner:s3cret@127.0.0.1:1/shop"
        with closing(Process(world.folder, {"OWNER": away})) as process:
            process.prunes.run()
            (said,) = process.said()
        assert (said["event"], said["error_type"]) == ("prune_failed", "SourceUnavailable")
        assert "s3cret" not in str(said)
        assert len(world.left()) == 6
        with closing(Process(world.folder, {"OWNER": postgres_db})) as process:
            assert process.prunes.run() == []
        assert world.left() == []


def test_a_prune_that_fails_keeps_no_other_from_its_own(lite: World) -> None:
    config = lite.folder / "poller.toml"
    wrong = config.read_text().partition("[pollers.fast]")[2].replace("[pollers.fast", "[pollers.aaa")
    wrong = wrong.replace("poller_orders_changes", "orders")
    config.write_text(config.read_text().replace("[pollers.fast]", f"[pollers.aaa]{wrong}\n[pollers.fast]"))
    with closing(Process(lite.folder)) as process:
        process.prunes.run()
        assert [(one["poller"], one["event"]) for one in process.said()] == [
            ("aaa", "prune_failed"),
            ("fast", "pruned"),
        ]
        assert "outbox = true in [pollers.aaa.prune]" in process.said()[0]["error"]
    assert lite.left() == []


def test_after_stop_no_further_chunk_is_deleted(lite: World, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("poller.databases.sqlite.capture")
    monkeypatch.setattr(module, "PRUNING", replace(module.PRUNING, chunk=2))
    with closing(Process(lite.folder)) as process:
        process.clock.stop.set()
        assert process.prunes.run(process.clock.stop) == []
        assert len(lite.left()) == 6
        stop = StopAfterOne()
        assert process.prunes.run(stop) == []
        assert lite.left() == [3, 4, 5, 6]


class StopAfterOne(threading.Event):
    """Is set while the first pause is waited for."""

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return True


@pytest.mark.parametrize("database", FAMILIES)
def test_a_table_that_stays_large_is_warned_of(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    more = 'prune.older_than = "5h"\nprune.warn_size = "300B"'
    with closing(World(request.getfixturevalue(database), tmp_path, ["fast"], more=more)) as world:
        aged(world)
        with closing(Process(world.folder)) as process:
            process.prunes.run()
            (said,) = process.said()
        assert (said["event"], said["table"], said["warn_size"]) == ("table_large", "poller_orders_changes", 300)
        assert said["bytes"] > 300
        assert world.family != "sqlite" or said["bytes"] < 2000, "an estimate"


def test_an_outbox_is_emptied_of_what_both_readers_are_done_with(sqlite_url: str, tmp_path: Path) -> None:
    with closing(Outbox(sqlite_url, tmp_path, pk='["id", "name"]')) as outbox:
        config = tmp_path / "poller.toml"
        config.write_text(config.read_text().replace("[pollers.one]", "[pollers.one]\nprune.outbox = true"))
        outbox.write(1, 2, 3)
        outbox.deliver("one", "two")
        outbox.write(4)
        outbox.deliver("one")
        with closing(Process(tmp_path)) as process:
            assert process.prunes.run() == []
            assert [one["rows"] for one in process.said()] == [2]
        assert outbox.left() == [(3, "a"), (4, "a")]


def test_delivery_goes_on_beside_it(lite: World) -> None:
    """A change that is written while its table is pruned comes."""
    seen: list[int] = []

    def handle(batch: Batch) -> None:
        seen.extend(row["id"] for row in batch)

    with closing(Process(lite.folder)) as process:
        process.prunes.run()
        lite.insert(2)
        process.app.pollers["fast"].tick(handle)
    assert seen == [7, 8]


def check(process: Process) -> dict[str, tuple[str, str, str]]:
    (checked,) = process.app.check("fast")
    found = [one for one in checked.findings if one.check in ("prune", "size")]
    return {one.check: (one.severity, one.message, one.fix) for one in found}


@pytest.fixture(params=FAMILIES)
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """One poller, with a handler that can be imported."""
    made = World(request.getfixturevalue(request.param), tmp_path, ["fast"], more=f'{HOURLY}\nprune.warn_size = "300B"')
    config = tmp_path / "poller.toml"
    config.write_text(config.read_text().replace('"handlers:handle"', '"poller.relays:stdout"'))
    aged(made)
    yield made
    made.close()


def test_check_says_whether_it_works(small: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql_capture, "PRUNING", replace(mysql_capture.PRUNING, spared=0))
    with closing(Process(small.folder)) as process:
        found = check(process)
        severity, message, fix = found["prune"]
        assert (severity, fix) == ("ok", "")
        assert message.endswith("poller_orders_changes that are older than 1h are deleted once an hour")
        severity, message, fix = found["size"]
        assert severity == "warn"
        assert message.endswith("bytes, more than warn_size (300).")
        assert fix == "See which reader is behind: poller prune fast --dry-run"
        small.age(5)
        severity, message, fix = check(process)["prune"]
        assert (severity, fix.partition(",")[0]) == ("warn", "See that poller run fast runs")
        assert message.startswith("6 changes of ")
        assert message.endswith("poller_orders_changes should be gone: they are older than 1h by more than 3h.")
        assert len(small.left()) == 6, "it changes nothing"


def test_check_says_why_it_would_be_refused(lite: World) -> None:
    config = lite.folder / "poller.toml"
    config.write_text(config.read_text().replace('"handlers:handle"', '"poller.relays:stdout"'))
    lite.app.store.write("state/other/unreadable.json", b"{", if_tag=None)
    with closing(Process(lite.folder)) as process:
        severity, message, fix = check(process)["prune"]
    assert severity == "warn"
    assert message.startswith(
        "Its table is not pruned: poller_orders_changes: it is not known whether other/unreadable"
    )
    assert fix.startswith("Repair that document")


def test_check_says_that_the_user_may_not_delete(postgres_db: str, tmp_path: Path) -> None:
    more = f'{HOURLY}\nprune.url_env = "READER"'
    with closing(World(postgres_db, tmp_path, ["fast"], more=more)) as world:
        config = tmp_path / "poller.toml"
        config.write_text(config.read_text().replace('"handlers:handle"', '"poller.relays:stdout"'))
        aged(world)
        role = f"reader_{sa.make_url(postgres_db).database}"
        world.captured.run(
            f"CREATE ROLE {role} LOGIN PASSWORD 'reads'",
            f"GRANT SELECT ON poller_orders_changes, poller_captures TO {role}",
        )
        url = sa.make_url(postgres_db).set(username=role, password="reads").render_as_string(hide_password=False)
        try:
            with closing(Process(world.folder, {"READER": url})) as process:
                severity, message, _ = check(process)["prune"]
                process.prunes.run()
                (said,) = process.said()
        finally:
            world.captured.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")
        assert severity == "warn"
        assert "permission denied" in message
        assert said["event"] == "prune_failed"
        assert len(world.left()) == 6


@pytest.mark.parametrize("database", FAMILIES)
def test_a_captured_table_is_pruned_and_read_on(
    database: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql_capture, "PRUNING", replace(mysql_capture.PRUNING, spared=0))
    with closing(World(request.getfixturevalue(database), tmp_path, ["fast"], more=HOURLY)) as world:
        config = tmp_path / "poller.toml"
        head, _, source = config.read_text().partition("table =")
        assert "poller_orders_changes" in source
        config.write_text(f'{head}table = "orders"\ncapture = true\nstart_from = "beginning"\n')
        world.insert(3)
        seen: list[int] = []
        with closing(Process(tmp_path)) as process:
            for expected in ([1, 2, 3], [1, 2, 3, 4, 5]):
                process.app.pollers["fast"].tick(lambda batch: seen.extend(row["id"] for row in batch))
                assert seen == expected
                world.age(2)
                assert process.prunes.run() == []
                assert (world.left(), world.pruned_through()) == ([], len(expected))
                world.insert(2)


@pytest.mark.parametrize("database", FAMILIES)
def test_check_warns_of_a_large_change_table_that_nothing_prunes(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with closing(World(request.getfixturevalue(database), tmp_path, ["fast"])) as world:
        config = tmp_path / "poller.toml"
        head, _, _ = config.read_text().partition("table =")
        text = head.replace('"handlers:handle"', '"poller.relays:stdout"')
        config.write_text(f'{text}table = "orders"\ncapture = true\n')
        world.insert(3)
        with closing(Process(tmp_path)) as process:
            assert check(process) == {}
        config.write_text(config.read_text() + '[pollers.fast.prune]\nwarn_size = "200B"\n')
        with closing(Process(tmp_path)) as process:
            ((severity, message, fix),) = check(process).values()
        assert severity == "warn"
        assert message.endswith("bytes, more than warn_size (200).")
        assert fix == 'Prune it: older_than = "7d" in [pollers.fast.prune], or: poller prune fast'


def test_a_setting_that_is_missing_is_named_with_its_key(lite: World) -> None:
    config = lite.folder / "poller.toml"
    config.write_text(config.read_text().replace(HOURLY, f'{HOURLY}\nprune.url_env = "NOT_SET"'))
    with closing(Process(lite.folder)) as process:
        (failed,) = process.prunes.run()
    assert "prune.url_env names the setting NOT_SET, which is not set" in str(failed)
