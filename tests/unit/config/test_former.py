"""Keys and values that went before the first release say what takes their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poller import ConfigError
from poller.sources import SqlSource
from tests.support.cases import each
from tests.unit.config.loading import refused

SOURCE = """
source.url = "sqlite:///shop.db"
source.table = "orders"
source.cursor_column = "updated_at"
source.pk_columns = ["id"]
"""
FORMER = [
    ("bound_margin", "1s", "settle"),
    ("commit_delay", "5s", "settle"),
    ("bound_wait", "5s", "Remove it"),
    ("stamped_by", "application", "delay"),
    ("bound", "observed", "strict"),
    ("bound", "observed-strict", "strict"),
    ("bound", "heuristic", "delay"),
]
OF_A_POLLER = [("commit", "grouped", "max_uncommitted"), ("read_ahead_bytes", "8MB", "Remove it")]


@each(("key", "value", "step"), [*OF_A_POLLER, *((f"source.{key}", *rest) for key, *rest in FORMER)])
def test_a_former_key_in_a_file_names_what_takes_its_place(tmp_path: Path, key: str, value: str, step: str) -> None:
    error = refused(tmp_path, {"poller.toml": f'app_name = "shop"\n[pollers.orders]{SOURCE}{key} = "{value}"\n'})
    assert error.key == f"pollers.orders.{key}"
    assert step in str(error.next_step)


@each(("key", "value", "step"), FORMER)
def test_a_former_keyword_names_what_takes_its_place(key: str, value: str, step: str) -> None:
    keys: dict[str, Any] = {"table": "t", "cursor_column": "c", "pk_columns": ["id"], key: value}
    with pytest.raises(ConfigError) as caught:
        SqlSource("sqlite://", **keys)
    assert caught.value.key == key
    assert step in str(caught.value.next_step)
