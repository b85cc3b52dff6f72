"""The tables that are drained: six columns of the usual types, two rows a second; one of them with a document."""

from __future__ import annotations

import sqlalchemy as sa

CUSTOMERS = 5_000
_COLUMNS = (
    "id bigint primary key, updated_at timestamptz not null, customer text not null, status text not null,"
    " total numeric(12, 2) not null, paid boolean not null"
)
_DOCUMENT = (
    '{"order": 1, "lines": [{"sku": "A-1", "count": 2, "price": 9.5}, {"sku": "B-2", "count": 1, "price": 19.0}],'
    ' "shipping": {"name": "A. Customer", "street": "Main Street 1", "city": "Reykjavik", "zip": "101"},'
    ' "tags": ["new", "gift", "express"]}'
)


def fill(url: str, table: str, rows: int, *, payload: bool = False, first: int = 1) -> None:
    """Make the table in PostgreSQL, or let one that is there grow: rows from the id `first` to the id `rows`."""
    declared, document = (f"{_COLUMNS}, payload jsonb", f", '{_DOCUMENT}'::jsonb") if payload else (_COLUMNS, "")
    values = (
        "n, timestamptz '2020-01-01 00:00:00.25Z' + n / 2 * interval '1 s',"
        f" 'customer ' || mod(n, {CUSTOMERS}), 'shipped', n * 0.25, mod(n, 2) = 0{document}"
    )
    statements = [
        f"create table if not exists {table} ({declared})",
        f"insert into {table} select {values} from generate_series({first}, {rows}) n",
        f"create index if not exists {table}_cursor on {table} (updated_at, id)",
        f"vacuum analyze {table}",
    ]
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
