"""Pruning in MariaDB and MySQL. Under REPEATABLE READ, or up to the newest row, the end of the index would be locked,
and writers would wait for it."""

from poller.databases.pruning import Rules

RULES = Rules(
    chunk=5000,
    spared=1000,
    session=(
        "SET SESSION time_zone = '+00:00'",
        "SET SESSION innodb_lock_wait_timeout = 10",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    ),
    begin=("START TRANSACTION",),
    lock=True,
    older="at < now(6) - INTERVAL :age SECOND",
    size="SELECT data_length + index_length FROM information_schema.tables"
    " WHERE table_schema = coalesce(:schema, database()) AND table_name = :table",
)
