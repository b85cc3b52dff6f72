"""Relative SQLite paths start at the folder of `poller.toml`: which database is meant must not depend on where a
command was started, or the fingerprint would."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

DEFAULT_STATE_URL = "sqlite:///state.db"
"""The embedded store, where `store = "sql"` names no database."""


def anchored(url: str, folder: Path) -> str:
    """A SQLite URL with its relative path made absolute; any other URL as it is."""
    head, separator, path = url.partition(":///")
    name = path.partition("?")[0]
    if not separator or head.partition("+")[0] != "sqlite" or name in {"", ":memory:"} or name.startswith("file:"):
        return url
    if PurePosixPath(name).is_absolute() or PureWindowsPath(name).is_absolute():
        return url
    return f"{head}:///{(folder / path).as_posix()}"


def anchor(table: Any, folder: Path) -> None:
    """Make the `url` of a table of the configuration start at the folder."""
    if isinstance(table, dict) and isinstance(table.get("url"), str):
        table["url"] = anchored(table["url"], folder)


def anchor_state(state: Any, folder: Path) -> None:
    """The same for `[state]`, which has a `url` of its own where it names none."""
    if isinstance(state, dict) and state.get("store") == "sql":
        state.setdefault("url", DEFAULT_STATE_URL)
    anchor(state, folder)
