"""Keys and values that went before the first release say what takes their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poller import ConfigError
from poller.config import load_config
from poller.sources import SqlSource
from tests.support.cases import each

SOURCE = 'url = "sqlite:///shop.db"\ntable = "orders"\ncursor_column = "updated_at"\npk_columns = ["id"]\n'
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


@each(("key", "value", "step"), OF_A_POLLER)
def test_a_former_option_in_a_file_names_what_takes_its_place(tmp_path: Path, key: str, value: str, step: str) -> None:
    file = tmp_path / "poller.toml"
    file.write_text(f'app_name = "shop"\n[pollers.orders]\n{key} = "{value}"\n[pollers.orders.source]\n{SOURCE}')
    with pytest.raises(ConfigError) as refused:
        load_config(file)
    assert refused.value.key == f"pollers.orders.{key}"
    assert step in str(refused.value.next_step)


@each(("key", "value", "step"), FORMER)
def test_a_former_key_in_a_file_names_what_takes_its_place(tmp_path: Path, key: str, value: str, step: str) -> None:
    file = tmp_path / "poller.toml"
    file.write_text(f'app_name = "shop"\n[pollers.orders.source]\n{SOURCE}{key} = "{value}"\n', encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        load_config(file)
    assert refused.value.key == f"pollers.orders.source.{key}"
    assert str(file) in refused.value.message
    assert step in str(refused.value.next_step)


@each(("key", "value", "step"), FORMER)
def test_a_former_keyword_names_what_takes_its_place(key: str, value: str, step: str) -> None:
    keys: dict[str, Any] = {"table": "t", "cursor_column": "c", "pk_columns": ["id"], key: value}
    with pytest.raises(ConfigError) as refused:
        SqlSource("sqlite://", **keys)
    assert refused.value.key == key
    assert step in str(refused.value.next_step)
