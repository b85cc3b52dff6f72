"""What `SqlSource` was given, validated without a connection. Every error names the key it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta, tzinfo
from typing import get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from poller.errors import ConfigError
from poller.model.cursor import CursorKind
from poller.model.durations import parse_duration
from poller.sources import bounds
from poller.sources.columns.moments import has_daylight_saving, plain_text

KINDS: tuple[CursorKind, ...] = get_args(CursorKind)
"""The cursor kinds that can be read."""

_NO_TIME = ("xid8+pk", "rowversion+pk")
"""Kinds whose bound is the database's own and has no instant that a delay could be taken from."""

STAMPED_BY = ("database", "application")
"""Who gives the cursor's column its values."""

DEFAULT_COMMIT_DELAY = timedelta(seconds=5)


@dataclass(frozen=True)
class Options:
    """The arguments of `SqlSource` besides `url`, in the types they are used in."""

    table: str | None
    schema: str | None
    query: str | None
    columns: tuple[str, ...] | None
    cursor_column: str
    cursor_kind: CursorKind
    zone: tzinfo | None
    stamped_by: str
    pk_columns: tuple[str, ...]
    filter: str | None
    start_from: str
    skip_nulls: bool
    query_timeout: timedelta
    bound: str
    bound_margin: timedelta
    commit_delay: timedelta
    extra_delay: timedelta
    bound_wait: timedelta
    bound_ignore_users: tuple[str, ...]

    @property
    def what(self) -> str:
        """The table or query as configured, for messages."""
        if self.table is None:
            return "query"
        return self.table if self.schema is None else f"{self.schema}.{self.table}"


def read_options(
    *,
    table: str | None,
    schema: str | None,
    query: str | None,
    columns: Sequence[str] | None,
    cursor_column: str,
    cursor_kind: str,
    cursor_time_zone: str | None,
    allow_dst: bool,
    stamped_by: str,
    pk_columns: Sequence[str],
    filter: str | None,  # noqa: A002 - the key's name
    start_from: object,
    on_null_cursor: str,
    query_timeout: str | timedelta,
    bound: str,
    bound_margin: str | timedelta,
    commit_delay: str | timedelta | None,
    bound_wait: str | timedelta,
    bound_ignore_users: Sequence[str],
) -> Options:
    """Validate. Raises: ConfigError naming the key."""
    if (table is None) == (query is None):
        raise ConfigError(
            "Exactly one of `table` and `query` must be given.", key="table", next_step="Remove one, or add one."
        )
    if query is not None and schema is not None:
        raise ConfigError("`schema` belongs to `table`; a query names its own.", key="schema", next_step="Remove it.")
    for key, value in (("table", table), ("cursor_column", cursor_column)):
        if value == "":
            raise ConfigError(f"`{key}` must be a name.", key=key)
    kind = _kind(cursor_kind)
    bounds.check(bound, kind)
    if kind == "pk" and cursor_column not in pk_columns:
        raise ConfigError(
            f"`cursor_kind` is pk, and `cursor_column` ({cursor_column}) is none of `pk_columns`.",
            key="cursor_column",
            next_step=f"Set `cursor_column` to {next(iter(pk_columns), 'the key')}.",
        )
    timeout = _duration("query_timeout", query_timeout)
    if timeout <= timedelta(0):
        raise ConfigError("`query_timeout` must be greater than 0.", key="query_timeout", next_step='Use "30s".')
    if on_null_cursor not in {"fail", "skip"}:
        raise ConfigError(
            f"`on_null_cursor` is {on_null_cursor!r}.", key="on_null_cursor", next_step='Use "fail" or "skip".'
        )
    start = plain_text(start_from)
    if not start.strip():
        raise ConfigError("`start_from` is empty.", key="start_from", next_step='Use "beginning", "now" or a value.')
    delay = None if commit_delay is None else _duration("commit_delay", commit_delay)
    if delay and kind in _NO_TIME:
        raise ConfigError(
            f"`commit_delay` has no effect on a cursor of kind {kind}, whose bound is no time.",
            key="commit_delay",
            next_step="Remove it; the kind needs none.",
        )
    return Options(
        table=table,
        schema=schema,
        query=query,
        columns=None if columns is None else _names("columns", columns),
        cursor_column=cursor_column,
        cursor_kind=kind,
        zone=_zone(cursor_time_zone, allow_dst),
        stamped_by=_stamped_by(stamped_by, kind, bound),
        pk_columns=_names("pk_columns", pk_columns),
        filter=filter,
        start_from=start,
        skip_nulls=on_null_cursor == "skip",
        query_timeout=timeout,
        bound=bound,
        bound_margin=_duration("bound_margin", bound_margin),
        commit_delay=DEFAULT_COMMIT_DELAY if delay is None else delay,
        extra_delay=timedelta(0) if delay is None else delay,
        bound_wait=_duration("bound_wait", bound_wait),
        bound_ignore_users=tuple(bound_ignore_users),
    )


def _kind(text: str) -> CursorKind:
    for kind in KINDS:
        if kind == text:
            return kind
    raise ConfigError(
        f"`cursor_kind` is {text!r}, which is none.",
        key="cursor_kind",
        next_step=f"Use one of {', '.join(KINDS)}.",
    )


def _stamped_by(wanted: str, kind: CursorKind, bound: str) -> str:
    if wanted not in STAMPED_BY:
        raise ConfigError(
            f"`stamped_by` is {wanted!r}.", key="stamped_by", next_step='Use "database" or "application".'
        )
    if wanted == "application" and kind in _NO_TIME:
        raise ConfigError(
            f"`stamped_by` is application, but only the database fills a column of kind {kind}.",
            key="stamped_by",
            next_step="Remove it.",
        )
    if wanted == "application" and bound not in {"auto", "heuristic", "none"}:
        raise ConfigError(
            f"`bound` is {bound} and `stamped_by` is application: what is open in the database says nothing of when an"
            " application took its values.",
            key="bound",
            next_step='Set bound = "auto", which is then the heuristic, or stamped_by = "database".',
        )
    return wanted


def _names(key: str, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ConfigError(f"`{key}` is a text, not a list.", key=key, next_step=f'Write {key} = ["{names}"].')
    found = tuple(names)
    if not found or not all(found):
        raise ConfigError(f"`{key}` must name at least one column.", key=key, next_step=f'Write {key} = ["id"].')
    if len(set(found)) < len(found):
        raise ConfigError(f"`{key}` names a column twice.", key=key, next_step="Remove the repeated name.")
    return found


def _duration(key: str, value: str | timedelta) -> timedelta:
    try:
        return parse_duration(value)
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"`{key}`: {error}.", key=key) from None


def _zone(name: str | None, allow_dst: bool) -> tzinfo | None:
    if name is None:
        return None
    if name.upper() == "UTC":
        return UTC
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"`cursor_time_zone` is {name!r}, which is no IANA time zone.",
            key="cursor_time_zone",
            next_step='Use a name such as "UTC" or "Europe/Berlin".',
        ) from None
    if not allow_dst and has_daylight_saving(zone):
        raise ConfigError(
            f"`cursor_time_zone` is {name!r}, whose clocks are set back once a year: rows written in the hour that"
            " then repeats can be skipped.",
            key="cursor_time_zone",
            next_step="Store UTC, or accept it with `allow_dst = true`.",
        )
    return zone
