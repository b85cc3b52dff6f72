"""Where rows come from: a SQL table or query, read in (cursor, primary key) order so that none is skipped."""

from __future__ import annotations

from poller.sources.sql_source import SqlSource

__all__ = ["SqlSource"]
