"""All timers frozen, all workers killed: health says so, names the poller, and is right again when work goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poller import Batch
from tests.integration.health.shop import LOOK, Shop, table
from tests.support.quarantine import Clock


@pytest.mark.parametrize(("option", "limit"), [("", 360), ('max_lag = "90s"', 90), ('lease_ttl = "20s"', 320)])
def test_health_turns_in_time_and_back(tmp_path: Path, option: str, limit: float) -> None:
    shop = Shop(tmp_path, table("orders", poller=option))
    shop.row(1)
    assert shop.tick() == "delivered"
    shop.clock.passed += 3600
    assert shop.wait(LOOK).healthy
    shop.row(2)
    found = shop.unhealthy_after(1200)
    assert found is not None
    assert limit - LOOK < found <= limit + 10 + LOOK, "10 s: until the schedule comes to it"
    said = shop.orders()
    assert said.name == "orders"
    assert said.word == "late"
    assert said.next_step is not None
    assert "orders" in said.next_step
    assert not shop.ask().healthy
    shop.tick()
    shop.clock.passed += LOOK
    assert shop.ask().healthy


@pytest.mark.guarantee("Never silently dead", "Clocks that differ change nothing of it")
def test_the_process_that_asks_may_have_any_clock(tmp_path: Path) -> None:
    """The store's clock counts, and the age of rows by the database's."""
    shop = Shop(tmp_path)
    shop.row(1, age=2000)
    shop.tick()
    shop.row(2, age=1000)
    ahead = Clock()
    ahead.passed = 30 * 86_400
    other = shop.another(ahead)
    assert shop.ask(other).healthy
    shop.clock.passed += 900
    assert not other.health().healthy
    assert not shop.app.health().healthy


def test_a_paused_poller_is_reported(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.row(1)
    shop.tick()
    shop.app.pollers["orders"].pause(by="ada")
    shop.row(2)
    shop.clock.passed += 3600
    assert shop.orders().healthy
    assert shop.orders().word == "paused"
    assert shop.orders().sentence.startswith("Paused by ada ")
    shop.app.pollers["orders"].resume(by="ada")
    assert shop.wait(2 * LOOK).healthy
    shop.clock.passed += 900
    assert not shop.orders().healthy


def test_a_handler_that_keeps_failing_is_found(tmp_path: Path) -> None:
    """Whenever its next call is: the end of a pause is no progress."""
    shop = Shop(tmp_path, table("orders", poller='retry_backoff = "280s"\nretry_backoff_max = "280s"'))
    shop.row(1)

    def fail(batch: Batch) -> None:
        raise OSError("CANARY-0: what it calls is down")

    assert shop.tick(fail) == "handler_failed"
    said = shop.wait(LOOK)
    assert (said.word, said.severity) == ("failing", "warning")
    assert "next try in " in said.sentence
    shop.clock.passed += 270
    assert shop.tick(fail) == "handler_failed"
    assert shop.wait(LOOK).healthy
    shop.clock.passed += 90
    said = shop.orders()
    assert (said.word, said.severity) == ("failing", "unhealthy")
    assert "CANARY" not in said.model_dump_json()
    shop.clock.passed += 280
    assert shop.tick() == "delivered"
    assert shop.orders().word == "idle"


def test_it_is_computed_in_the_middle_of_a_tick(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.row(1)
    said: list[object] = []
    shop.tick(lambda batch: said.append(shop.app.health().pollers[0]))
    (found,) = said
    assert found.healthy  # type: ignore[attr-defined]
    assert "is at work" in found.sentence  # type: ignore[attr-defined]


def test_one_pollers_trouble_hides_no_other(tmp_path: Path) -> None:
    away = "postgresql+psycopg://ada:CANARY-3@127.0.0.1:1/shop"
    wrong = "no-such-database://CANARY-4"
    shop = Shop(tmp_path, table("orders"), table("away", url=away), table("wrong", url=wrong))
    shop.row(1)
    shop.tick()
    found = shop.ask()
    assert [(one.name, one.word) for one in found.pollers] == [
        ("wrong", "misconfigured"),
        ("away", "source_away"),
        ("orders", "idle"),
    ]
    assert "CANARY" not in found.model_dump_json()


@pytest.mark.guarantee("Never silently dead", "Health shows and keeps no row, key, cursor, address or setting")
def test_no_row_and_no_key_is_shown_or_kept(tmp_path: Path) -> None:
    shop = Shop(tmp_path, table("orders", poller='on_poison = "halt"\nmax_attempts = 1\nretry_backoff = "1ms"'))
    for number in (777_001, 777_002):
        shop.row(number, age=90_000)

    def fail(batch: Batch) -> None:
        raise ValueError(f"CANARY {batch.rows[0]}")

    for _ in range(4):
        shop.tick(fail)
        shop.clock.sleep(1)
        text = shop.ask().model_dump_json() + json.dumps(shop.document())
        assert not any(word in text for word in ("CANARY", "777", "sqlite", "shop.db"))


@pytest.mark.guarantee(
    "Never silently dead",
    "While every timer is frozen and every worker dead, health says so within `max_lag` and 15 s, else within 5 "
    "minutes, `lease_ttl` and 15 s, names the poller, and is right again when work goes on; also where only rows "
    "that were set aside are left",
)
def test_rows_set_aside_that_no_worker_tries_are_found(tmp_path: Path) -> None:
    """They are past the checkpoint, so the table shows none that waits."""
    shop = Shop(tmp_path, table("orders", poller='on_poison = "quarantine"\nmax_attempts = 2\nretry_backoff = "1s"'))
    for number in (1, 2, 3):
        shop.row(number)

    def fail_two(batch: Batch) -> None:
        if any(row["id"] == 2 for row in batch):
            raise ValueError

    while shop.tick(fail_two) != "idle":
        shop.clock.sleep(2)
    said = shop.wait(LOOK)
    assert (said.healthy, said.aside, said.pending) == (True, 1, 0)
    late = shop.unhealthy_after(900)
    assert late is not None
    assert 300 < late <= 400
    said = shop.orders()
    assert said.sentence.startswith("1 row set aside could be tried again for ")
    assert said.aside_due == 1
    assert shop.tick() == "delivered"
    assert shop.wait(LOOK).healthy
    assert shop.wait(3600).aside_due == 0
