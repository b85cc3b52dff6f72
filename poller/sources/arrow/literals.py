"""A statement with its values written into it: ADBC reads by COPY, which takes no parameters.

The values come from the state document, which is not trusted: each is written by one rule per type, in one pass over
the statement, so that nothing that was written is read again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Compiled

from poller.sources.user_sql.literals import literal

_PARAMETER = re.compile(r"%\((?P<name>\w+)\)s|%%")
"""As psycopg has them in a statement."""


class NoLiteral(ValueError):
    """A value that no literal is written for."""


def with_literals(query: Compiled, params: Mapping[str, Any]) -> str:
    """A statement as PostgreSQL takes it without parameters. Raises: NoLiteral."""
    given = query.construct_params(params) or {}
    return _PARAMETER.sub(lambda found: "%" if found["name"] is None else value(given[found["name"]]), str(query))


def value(given: Any) -> str:
    """One value as a literal. Raises: NoLiteral."""
    if type(given) is int:
        return f"({given:d})" if given < 0 else f"{given:d}"
    if type(given) is str:
        if "\0" in given or any("\ud800" <= char <= "\udfff" for char in given):
            raise NoLiteral("a text that PostgreSQL cannot hold")
        return literal(given)
    if type(given) is bytes:
        return f"decode('{given.hex()}', 'hex')"
    raise NoLiteral(type(given).__name__)
