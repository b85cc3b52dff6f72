"""Where rows come from: a SQL table or query, read in (cursor, primary key) order so that none is skipped.

`SqlSource` is imported when it is first used: what only looks at a checkpoint loads no database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.doors import door

if TYPE_CHECKING:
    from poller.sources.probing import NoAnswer, RowProbe
    from poller.sources.sql_source import SqlSource

__all__ = [
    "NoAnswer",
    "RowProbe",
    "SqlSource",
]

_HOMES = {
    "NoAnswer": "probing",
    "RowProbe": "probing",
    "SqlSource": "sql_source",
}

__getattr__, __dir__ = door(__name__, _HOMES)
