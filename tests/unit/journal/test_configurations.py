"""Two apps under one `app_name` notice each other, and a deployment is no alarm. Time is passed in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from poller import load_app
from poller.config import AppConfig
from poller.journal import Configurations, digest_of
from poller.observability import PollerEvent, TwoApps
from poller.ports import Found, Missing, Timeout, Unchanged, Written
from poller.stores import MemoryStore, SqlStore
from tests.support.configurations import BOTH, ORDERS, config
from tests.support.dispatching import Clock

MINUTE = 60.0


class Town:
    """Processes over one store, each of a configuration. `heard`: how many events each emitted."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = Counting(self.clock)
        self.heard: list[TwoApps] = []

    def process(self, of: AppConfig) -> Configurations:
        return Configurations(self.store, of, self.clock)

    def hear(self, event: PollerEvent) -> None:
        assert isinstance(event, TwoApps)
        self.heard.append(event)

    def work(self, *processes: Configurations, minutes: float) -> None:
        """All of them go round, for so long."""
        for _ in range(int(minutes * 6)):
            for one in processes:
                if one.due():
                    one.keep(self.hear)
            self.clock.passes(10)


class Counting(MemoryStore):
    """A store that counts its writes."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.writes: Counter[str] = Counter()

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        self.writes[name] += 1
        return super().write(name, body, if_tag=if_tag, timeout=timeout)


class Crowded(MemoryStore):
    """A store whose every folder holds 50,000 documents more."""

    listed_names = reads = 0

    def names(self, prefix: str) -> Iterator[str]:
        for number in range(50_000):
            self.listed_names += 1
            yield f"{prefix}{number:032x}.json"

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        self.reads += 1
        return super().read(name, unless=unless, timeout=timeout)


@pytest.mark.guarantee(
    "One worker at a time",
    "Two apps under one `app_name` notice each other (dispatchers, `poller run` and timers), and a deployment of ten"
    " minutes, or one that is taken back, raises no alarm",
)
def test_two_apps_under_one_name_notice_each_other() -> None:
    town = Town()
    orders, both = town.process(ORDERS), town.process(BOTH)
    town.work(orders, both, minutes=14)
    assert town.heard == []
    town.work(orders, both, minutes=12)
    assert sorted(event.only_there for event in town.heard) == [[], ["refunds"]], "each says it once"
    (said,) = [event.error for event in town.heard if event.only_there]
    assert "under the name shop" in said
    assert "only that one has refunds" in said
    assert "app_name" in said


@pytest.mark.parametrize("overlap", [0, 1, 5, 12])
def test_a_deployment_is_no_alarm(overlap: float) -> None:
    town = Town()
    before, after = town.process(ORDERS), town.process(BOTH)
    town.work(before, minutes=60)
    town.work(before, after, minutes=overlap)
    town.work(after, minutes=60)
    assert town.heard == []


def test_a_deployment_that_is_taken_back_is_no_alarm() -> None:
    town = Town()
    for of in (ORDERS, BOTH, ORDERS):
        town.work(town.process(of), minutes=11)
    assert town.heard == []


def test_it_ends_when_the_other_stops() -> None:
    town = Town()
    orders, both = town.process(ORDERS), town.process(BOTH)
    town.work(orders, both, minutes=30)
    assert orders.beside() is not None
    town.work(orders, minutes=13)
    assert orders.beside() is None
    town.work(orders, both, minutes=30)
    assert len(town.heard) == 4, "and is said again when it begins again"


def test_processes_of_one_configuration_share_a_hint() -> None:
    town = Town()
    town.work(*(town.process(ORDERS) for _ in range(20)), minutes=60)
    assert town.heard == []
    assert len(town.store.writes) == 1
    assert sum(town.store.writes.values()) <= 15


def test_what_makes_another_configuration() -> None:
    same = [
        config("orders", batch_size=7, schedule="0 0 2 * * *"),
        config("orders", url="postgresql://u:hunter2@db/shop"),
    ]
    assert {digest_of(one) for one in same} == {digest_of(ORDERS)}
    others = [BOTH, config("refunds"), config("orders", handler="handlers:other")]
    assert len({digest_of(one) for one in (ORDERS, *others)}) == 4


def test_a_hint_holds_no_secret() -> None:
    town = Town()
    town.work(town.process(config("orders", url="postgresql://u:hunter2@db/shop")), minutes=1)
    (name,) = town.store.names("configurations/")
    found = town.store.read(name)
    assert isinstance(found, Found)
    assert json.loads(found.body).keys() == {"v", "since", "pollers"}
    assert b"hunter2" not in found.body


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"\xff", b"{}", b'{"v": 1}', b'{"v": 1, "since": "x", "pollers": []}', b"[" * 90_000, b" " * 900_000],
    ids=range(8),
)
def test_a_hint_full_of_garbage_is_no_other_app(body: bytes) -> None:
    town = Town()
    town.store.write(f"configurations/shop/{'a' * 32}.json", body, if_tag=None)
    town.work(town.process(ORDERS), minutes=30)
    assert town.heard == []


def test_of_countless_hints_few_are_listed_and_read() -> None:
    town = Town()
    store, looked = Crowded(town.clock), 0
    orders = Configurations(store, ORDERS, town.clock)
    while looked < 3:
        if orders.due():
            orders.keep(town.hear)
            looked += 1
        town.clock.passes(10)
    assert town.heard == []
    assert store.listed_names <= 3 * 2_000
    assert store.reads <= 3 * 25


def test_a_document_beside_the_hints_is_left_alone() -> None:
    town = Town()
    beside = "configurations/shop/notes.json"
    town.store.write(beside, b'{"v": 1, "since": "2020-01-01T00:00:00Z", "pollers": []}', if_tag=None)
    town.clock.passes(25 * 3600)
    town.work(town.process(ORDERS), minutes=1)
    assert isinstance(town.store.read(beside), Found)


def test_a_hint_of_a_day_ago_is_removed() -> None:
    town = Town()
    town.work(town.process(BOTH), minutes=1)
    town.clock.passes(25 * 3600)
    town.work(town.process(ORDERS), minutes=1)
    assert len(list(town.store.names("configurations/"))) == 1


def test_health_and_check_warn_of_two_apps(tmp_path: Path) -> None:
    file = tmp_path / "poller.toml"
    file.write_text(
        'app_name = "shop"\n[state]\nstore = "sql"\n[pollers.orders]\nhandler = "poller.relays:stdout"\n'
        '[pollers.orders.source]\nurl = "sqlite:///shop.db"\ntable = "orders"\ncursor_column = "updated_at"\n'
        'cursor_time_zone = "UTC"\npk_columns = ["id"]\n'
    )
    with load_app(file, {}) as app:
        assert {one.word for one in app.health().pollers} == {"source_away"}
        for digest, names in ((digest_of(app.config), ["orders"]), ("f" * 32, ["orders", "refunds"])):
            hint = {"v": 1, "since": "2020-01-01T00:00:00Z", "pollers": names}
            app.store.write(f"configurations/shop/{digest}.json", json.dumps(hint).encode(), if_tag=None)
    assert isinstance(app.store, SqlStore)
    with load_app(file, {}) as app:
        (healthy,) = app.health().pollers
        (status,) = app.status().pollers
        (checked,) = app.check()
    assert "two_apps" in {one.name for one in healthy.conditions}
    assert "refunds" not in healthy.model_dump_json()
    (found,) = [one for one in status.conditions if one.name == "two_apps"]
    assert "refunds" in str(found.detail)
    (finding,) = [one for one in checked.findings if one.check == "delivery"]
    assert found.sentence in finding.message
