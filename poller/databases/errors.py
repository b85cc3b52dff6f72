"""What drivers say of an error: SQLSTATE, number, and whether a table is missing."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

_NO_TABLE = re.compile(r"no such table|ORA-00942|invalid object name", re.IGNORECASE)


def codes(original: Any) -> tuple[str | None, int | None]:
    """SQLSTATE and error number of a driver's exception, if the driver gives them."""
    arguments = getattr(original, "args", ())
    number = arguments[0] if arguments and isinstance(arguments[0], int) else None
    return getattr(original, "sqlstate", None) or getattr(original, "pgcode", None), number


def says_no_table(error: SQLAlchemyError) -> bool:
    """True if the database itself said that a table does not exist; False if that is unknown."""
    original: Any = getattr(error, "orig", None)
    state, number = codes(original)
    return state == "42P01" or number in {1146, 208} or _NO_TABLE.search(str(original)) is not None
