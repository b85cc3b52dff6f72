"""Two apps of timers under one `app_name` notice each other."""

from __future__ import annotations

import json
import logging
from contextlib import closing

import pytest

from poller import load_app
from poller.journal import digest_of
from poller.ports import Found
from poller.stores import SqlStore
from tests.functions.folder import Folder
from tests.support.services import wait_until

HINTS = "configurations/shop/"


def hints(shop: Folder) -> list[str]:
    with closing(SqlStore(f"sqlite:///{shop.path / 'state.db'}")) as store:
        return list(store.names(HINTS))


def own(shop: Folder) -> str:
    with load_app(shop.write(), {}) as app:
        return f"{HINTS}{digest_of(app.config)}.json"


def tag_of(store: SqlStore, name: str) -> str:
    found = store.read(name)
    assert isinstance(found, Found)
    return found.tag


def test_a_tick_says_which_configuration_works(shop: Folder) -> None:
    worker = shop.worker()
    worker.invoke("orders")
    wait_until(lambda: hints(shop) == [own(shop)], "the hint")
    with closing(SqlStore(f"sqlite:///{shop.path / 'state.db'}")) as store:
        before = tag_of(store, own(shop))
        for _ in range(3):
            worker.invoke("orders")
        assert tag_of(store, own(shop)) == before, "it is renewed every five minutes"


def test_a_sweep_says_it_too(shop: Folder) -> None:
    shop.pollers.clear()
    shop.poller(options='schedule = "0 0 2 29 2 *"')
    shop.worker().invoke("poller_sweep")
    wait_until(lambda: hints(shop) == [own(shop)], "the hint")


def test_timers_of_two_configurations_warn(shop: Folder, caplog: pytest.LogCaptureFixture) -> None:
    theirs = f"{HINTS}{'f' * 32}.json"
    with closing(SqlStore(f"sqlite:///{shop.path / 'state.db'}")) as store:
        for name, pollers in ((own(shop), ["orders"]), (theirs, ["orders", "refunds"])):
            said = {"v": 1, "since": "2020-01-01T00:00:00Z", "pollers": pollers}
            store.write(name, json.dumps(said).encode(), if_tag=None)
    caplog.set_level(logging.WARNING, "poller")
    worker = shop.worker()
    worker.invoke("orders")
    wait_until(lambda: "two_apps" in caplog.text, "the warning")
    assert "only_there=['refunds']" in caplog.text


def test_a_store_that_takes_no_hint_fails_no_tick(shop: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def names(self: SqlStore, prefix: str) -> list[str]:
        if prefix == HINTS:
            raise ValueError("not foreseen")
        return []

    monkeypatch.setattr(SqlStore, "names", names)
    worker = shop.worker()
    for _ in range(2):
        worker.invoke("orders")
    assert shop.handlers.seen == [1, 2, 3, 4, 5]
