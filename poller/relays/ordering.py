"""The columns that a relay's settings name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from poller.errors import ConfigError
from poller.model.finding import Finding, error

STEP = "Name a column of the source."


def key_value(values: Mapping[str, Any], name: str, *, key: str = "ordering_key") -> Any:
    """The value of a row in a column that the setting `key` names. Raises: ConfigError, where rows have none."""
    if name not in values:
        raise ConfigError(f"names {name}, which the rows do not have.", key=key, next_step=STEP)
    return values[name]


def chosen(values: Mapping[str, Any], columns: Mapping[str, str]) -> Mapping[str, Any]:
    """The values under the names that the setting `columns` gives them; without it, all of them. Raises: ConfigError,
    where rows have no such column."""
    if not columns:
        return values
    return {name: key_value(values, source, key="columns") for name, source in columns.items()}


def unknown_columns(named: Mapping[str, Iterable[str]], columns: tuple[str, ...]) -> list[Finding]:
    """What `poller check` says of settings (the keys of `named`) that name columns which rows do not have."""
    return [
        error("relay", f"`relay.{key}` names {name}, which the rows do not have.", STEP)
        for key, names in named.items()
        for name in names
        if name not in columns
    ]
