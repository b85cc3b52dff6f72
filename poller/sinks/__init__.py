"""Writing to a target so that each row counts once, although it may be handed over more than once.

`sql` is for targets in PostgreSQL, MariaDB, MySQL and SQLite (`fenced`); the other modules are its parts: `schema` has
the two tables, `statements` what is asked of each database, `driver` what a driver knows of its connection, `ledger`
the pure rules, `transaction` one fenced transaction from its first statement to its end.
"""
