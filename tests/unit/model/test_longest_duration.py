"""Durations end at ten years: no clock that a poller reads can be reckoned with for much longer."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from poller import Batch, ConfigError, Poller
from poller.model.durations import parse_duration
from poller.sources import SqlSource
from poller.stores import MemoryStore

TOO_LONG = ["3651d", "99999999h", "999999999999h", "9" * 400 + "d", timedelta(days=3651)]


def _poller(folder: Path, **options: str | timedelta) -> Poller:
    source = SqlSource(
        f"sqlite:///{folder / 'orders.db'}",
        table="orders",
        cursor_column="updated_at",
        cursor_time_zone="UTC",
        pk_columns=["id"],
    )
    return Poller("orders", source=source, store=MemoryStore(), app_name="shop", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", TOO_LONG)
def test_what_is_longer_is_refused_with_the_reason(tmp_path: Path, value: str | timedelta) -> None:
    with pytest.raises(ValueError, match="10 years"):
        parse_duration(value)
    with pytest.raises(ConfigError, match=r"lease_ttl: .*10 years"):
        _poller(tmp_path, lease_ttl=value)


def test_a_poller_works_with_the_longest_ones(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "orders.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        connection.execute("INSERT INTO orders VALUES (1, '2026-01-01 00:00:00')")
    keys = ("lease_ttl", "tick_timeout", "handler_timeout", "audit_window")
    poller = _poller(tmp_path, **dict.fromkeys(keys, "3650d"))
    seen: list[object] = []

    def handle(batch: Batch) -> None:
        seen.extend(batch)

    assert poller.tick(handle).rows == len(seen) == 1
    assert poller.recheck(timedelta(days=3650)).compared == 1
