"""What rows of a captured table have beside the table's own columns: which operation, and what stood before it."""

from __future__ import annotations

from typing import Literal, get_args

Op = Literal["I", "U", "D", "T", "R", "B", "E"]
"""Inserted, updated, deleted, truncated (the table was emptied); read by a snapshot, which begins with B and ends with
E."""
OPS: tuple[Op, ...] = get_args(Op)

OP = "_op"
"""The column of the operation (`Op`)."""
OLD = "_old"
"""The column of the row before the change, a mapping by column; None for an insert, or if old values are not kept."""
CHANGE = "_change"
"""The column of the change's number, the cursor of the change table."""
TX = "_tx"
"""The column of the transaction's number, as text; None if the database has none. It groups changes, and orders
nothing."""
AT = "_at"
"""The column of the time of the change, by the database's clock, UTC."""
RESERVED = (OP, OLD, CHANGE, TX, AT)
"""Columns that a captured table must not have."""
WHOLE_TABLE: frozenset[str] = frozenset({"T", "B", "E"})
"""Operations that concern every key, and have no row: the table's columns are None in them."""
