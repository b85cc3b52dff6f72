"""`filter` and `query`, checked where there are any: most sources do without, and without the parser."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=256)  # a thousand pollers of one template have one filter
def checked_sql(
    condition: str | None, query: str | None, family: str, cursor_column: str
) -> tuple[str | None, str | None]:
    """The user's own SQL, ready to stand inside ours. Raises: ConfigError naming `filter` or `query`."""
    if condition is None and query is None:
        return None, None
    from poller.sources.user_sql.filters import check_filter, check_query

    return (
        None if condition is None else check_filter(condition, family),
        None if query is None else check_query(query, family, cursor_column),
    )


@lru_cache(maxsize=256)
def calls_functions(condition: str | None, query: str | None, family: str) -> bool:
    """True if the user's own SQL, which was checked, may call functions other than those of the SQL standard, which may
    change settings of the session: any query may, since a view in it may."""
    if query is not None or condition is None:
        return query is not None
    from sqlglot import exp

    from poller.sources.user_sql import Unreadable, parse

    try:
        return parse(f"({condition}\n)", family, condition=True).find(exp.Anonymous) is not None
    except Unreadable:
        return True
