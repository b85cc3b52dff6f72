"""PostgreSQL: the sequence that hands out the integers of a column."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.sources.columns import Column, Family
from poller.sources.facts import TableChanged
from poller.sources.sampler import BLOCKS

_SEQUENCE = sa.text("select pg_get_serial_sequence(:name, :column)")
_SEQUENCE_MADE = sa.text(
    """
select has_sequence_privilege(seqrelid, 'SELECT') as readable, seqcache, seqincrement, seqcycle,
       a.attidentity <> '' or coalesce(pg_get_expr(d.adbin, d.adrelid)
           = format('nextval(%L::regclass)', cast(cast(seqrelid as regclass) as text)), false) as fills
  from pg_sequence
  join pg_attribute a on a.attrelid = to_regclass(:name) and a.attname = :column
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
 where seqrelid = cast(:sequence as regclass)
""".replace("::", "\\:\\:")
)
_VALUE = """
select case when s.is_called then s.last_value + 1 else s.last_value end, q.seqcache, q.seqincrement, q.seqcycle
  from {name} as s, pg_sequence as q where q.seqrelid = cast(:sequence as regclass)
"""
"""The next value, and what makes it one that no session hands out later."""


class Counter(NamedTuple):
    """The sequence's name, and what reads the first value that was not handed out yet."""

    sequence: str
    read: Callable[[Connection], int]


def counter_of(connection: Connection, name: str | None, column: Column) -> Counter | str:
    """The counter of a column of the table `name`, or the reason (a `str`) why there is none that only grows."""
    if name is None:
        return "the column of a query has no sequence"
    if column.family is not Family.INTEGER:
        return f"the column {column.name} holds no integers, so no sequence fills it"
    sequence = connection.execute(_SEQUENCE, {"name": name, "column": column.name}).scalar_one_or_none()
    if sequence is None:
        return f"no sequence fills the column {column.name}"
    names = {"sequence": sequence, "name": name, "column": column.name}
    made = connection.execute(_SEQUENCE_MADE, names).one()
    if not made.readable:
        return f"the user may not read the sequence: GRANT SELECT ON SEQUENCE {sequence}"
    if not made.fills:  # it is owned by the column, as after ALTER COLUMN ... SET DEFAULT, but does not fill it
        return f"the DEFAULT of {column.name} is not the next value of the sequence {sequence}"
    if made.seqcache > 1:
        return f"the sequence {sequence} has CACHE {made.seqcache}: sessions hand out old values later"
    if made.seqincrement > 1:
        return f"the sequence {sequence} has INCREMENT BY {made.seqincrement}: {BLOCKS}"
    if made.seqincrement < 1 or made.seqcycle:
        return f"the sequence {sequence} does not only grow"
    name = str(sequence).replace(":", "\\:")  # quoted by the database, where that is needed
    value = sa.text(_VALUE.replace("{name}", name))

    def read(connection: Connection) -> int:
        """The first value that was not handed out yet. Raises: TableChanged, if the sequence does not say it any
        more."""
        at, *others = connection.execute(value, {"sequence": sequence}).one()
        if others != [made.seqcache, made.seqincrement, made.seqcycle]:
            raise TableChanged
        return int(at)

    return Counter(sequence, read)
