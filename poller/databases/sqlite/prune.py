"""Pruning in SQLite: the write lock is held for each transaction, so that it has few rows."""

from poller.databases.pruning import Rules

RULES = Rules(
    chunk=500,
    spared=0,
    session=("PRAGMA busy_timeout = 10000",),
    begin=("BEGIN IMMEDIATE",),
    lock=False,
    older="at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || :age || ' seconds')",
    size=None,
)
