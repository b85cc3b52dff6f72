"""Two apps under one `app_name` that share a queue: neither loses the other's messages in silence."""

from __future__ import annotations

import logging
from base64 import b64decode
from collections.abc import Callable
from typing import TypeAlias

import pytest

from poller.dispatch import Dispatcher, Pollers
from poller.journal import Configurations
from tests.support.configurations import BOTH, ORDERS
from tests.support.dispatching import APP, Shop, Told, work_message

Make: TypeAlias = Callable[..., Shop]


def test_dispatchers_of_two_configurations_warn(shop: Make, caplog: pytest.LogCaptureFixture) -> None:
    many = shop(2)
    many.started()

    def dispatcher(*names: str) -> Dispatcher:
        return Dispatcher(
            Pollers(APP, {name: many.poller(name).options for name in names}, many.poller),
            store=many.store,
            queue=many.queue,
            prober=Told(),
            runtime=many.clock,
            configurations=Configurations(many.store, ORDERS if len(names) == 1 else BOTH, many.clock),
        )

    ours, theirs = dispatcher("p0"), dispatcher("p0", "p1")
    caplog.set_level(logging.WARNING, "poller")
    for _ in range(14):
        many.round(ours, after=30)
        many.round(theirs, after=30)
    assert "two_apps" not in caplog.text
    for _ in range(12):
        many.round(ours, after=30)
        many.round(theirs, after=30)
    assert caplog.text.count("two_apps") == 2, "each says it once"
    assert "only_there=['refunds']" in caplog.text


def test_a_message_for_a_poller_we_lack_says_what_to_do(shop: Make, caplog: pytest.LogCaptureFixture) -> None:
    many = shop(1)
    assert many.work().do(b64decode(work_message("refunds", many.clock.utcnow()))) is None
    (record,) = caplog.records
    said = record.getMessage()
    assert "for the poller refunds was dropped" in said
    assert "another app_name" in said
