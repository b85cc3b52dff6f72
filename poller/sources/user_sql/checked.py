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
