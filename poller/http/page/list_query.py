"""What part of the list a caller asks for: `?q=` a name, `?severity=`, `?page=`. Judged before any look."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, get_args
from urllib.parse import parse_qsl, urlencode

from poller.model.view import Severity

LONGEST_NAME = 63
"""Characters of a poller's name, and so of a search."""
LONGEST_QUERY = 4096
FIELDS = ("q", "severity", "page")
"""Others belong to what stands before the page, and are ignored."""
_PAGE = re.compile(r"[1-9][0-9]{0,8}")


class BadQuery(Exception):
    """The query is refused; its text says why, in words of ours."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A part of the list. `name`: what is in the names that are listed; empty: anything. `severity`: empty: any."""

    name: str = ""
    severity: str = ""
    page: int = 1

    @property
    def narrows(self) -> bool:
        """True if not every poller is listed."""
        return bool(self.name or self.severity)

    def link(self, **changes: Any) -> str:
        """The address of the list with this query, some of it changed; relative to the list."""
        other = replace(self, **changes)
        values = {"q": other.name, "severity": other.severity, "page": str(other.page) if other.page > 1 else ""}
        given = urlencode({field: value for field, value in values.items() if value})
        return f"dashboard?{given}" if given else "dashboard"


def list_query(query: str) -> ListQuery:
    """The part of the list that a query asks for. Raises: BadQuery."""
    if len(query) > LONGEST_QUERY:
        raise BadQuery("The address is too long")
    try:
        fields = parse_qsl(query, keep_blank_values=True, errors="strict")
    except ValueError:
        raise BadQuery("The address is malformed") from None
    given = [(field, value.strip()) for field, value in fields if field in FIELDS]
    values = dict(given)
    if len(values) != len(given):
        raise BadQuery("A part of the address is given twice")
    name, severity, page = values.get("q", ""), values.get("severity", ""), values.get("page") or "1"
    if len(name) > LONGEST_NAME:
        raise BadQuery(f"No poller has a name of more than {LONGEST_NAME} characters")
    if severity and severity not in get_args(Severity):
        raise BadQuery(f"A severity is one of {', '.join(get_args(Severity))}")
    if _PAGE.fullmatch(page) is None:
        raise BadQuery("A page is a number from 1 on")
    return ListQuery(name, severity, int(page))
