"""The ordering key of a poller: the columns within whose values rows are handled in order (failures.md, rule 8)."""

from __future__ import annotations

import json

from poller.errors import ConfigError
from poller.model.aside import waiting
from poller.model.document import State
from poller.ports import Source


def key_columns(source: Source, ordering_key: tuple[str, ...]) -> tuple[str, ...]:
    """The option `ordering_key` as the columns that are read and stored for it; empty: the key columns serve."""
    return () if ordering_key == source.describe().pk_columns else ordering_key


def order_by(source: Source, ordering_key: tuple[str, ...]) -> None:
    """Have the source read the ordering key.

    Raises: ConfigError, if it can order rows by their key only.
    """
    columns = key_columns(source, ordering_key) if ordering_key else ()
    if source.can_order:
        source.ordering_key = columns
    elif columns:
        raise ConfigError(
            f"`ordering_key` is {', '.join(columns)}, and this source ({type(source).__name__}) orders rows by their"
            " key only.",
            key="ordering_key",
            next_step="Remove it, or use a source that can (`can_order`), such as poller.sources.SqlSource.",
        )


def check_ordering_key(name: str, state: State, source: Source, ordering_key: tuple[str, ...]) -> None:
    """Rows that wait are found by hashes of their ordering key: with other columns, later rows of their keys would
    overtake them (failures.md, rule 8).

    Raises: ConfigError, where rows wait under another ordering key than is configured.
    """
    count = waiting(state)
    if not count or key_columns(source, ordering_key) == key_columns(source, state.ordering_key):
        return
    many = "1 row waits" if count == 1 else f"{count} rows wait"
    raise ConfigError(
        f"`ordering_key` of {name!r} is {_shown(ordering_key)}, and {many}, aside or in quarantine, that"
        f" {'was' if count == 1 else 'were'} listed with {_shown(state.ordering_key)}: later rows of the same keys"
        " would overtake them.",
        key="ordering_key",
        next_step=f"Put it back ({_written(state.ordering_key)}), or settle the rows first: poller quarantine replay"
        f" {name} --all, or poller quarantine discard {name} --all.",
    )


def _shown(columns: tuple[str, ...]) -> str:
    return ", ".join(columns) if columns else "the key columns"


def _written(columns: tuple[str, ...]) -> str:
    """As it is in `poller.toml`."""
    return f"ordering_key = {json.dumps(list(columns), ensure_ascii=False)}" if columns else "no `ordering_key`"
