"""The columns that a relay's setting names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from poller.errors import ConfigError


def key_value(values: Mapping[str, Any], name: str, *, key: str = "ordering_key") -> Any:
    """The value of a row in a column that the setting `key` names. Raises: ConfigError, where rows have none."""
    if name not in values:
        raise ConfigError(
            f"names {name}, which the rows do not have.", key=key, next_step="Name a column of the source."
        )
    return values[name]
