"""Where rows come from: a SQL table or query, read in (cursor, primary key) order so that none is skipped.

`SqlSource` is imported when it is first used: what only looks at a checkpoint loads no database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from poller.sources.sql_source import SqlSource

__all__ = ["SqlSource"]


def __getattr__(name: str) -> object:
    if name != "SqlSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from poller.sources.sql_source import SqlSource

    return SqlSource


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
