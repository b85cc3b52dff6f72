"""What `SqlSource` was given, checked without a connection, also whether the options fit each other. Every error names
the key it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from poller.config import SourceOptions
from poller.config.load import checked_keywords
from poller.errors import ConfigError
from poller.model.cursor import CursorKind
from poller.sources.columns.moments import has_daylight_saving, plain_text

_NO_TIME = ("xid8+pk", "rowversion+pk")
"""Kinds whose bound is the database's own and has no instant that a delay could be taken from."""

_BOUNDS = ("auto", "exact", "observed", "observed-strict", "heuristic", "none")
"""What the key `bound` may say (design, "Configuration")."""
_KNOWN_BY_DATABASE = {"xid8+pk": "postgresql", "rowversion+pk": "mssql"}
"""Kinds whose bound the database itself knows: no other bound makes sense."""


class Options(SourceOptions):
    """The options of a source, with what follows from them."""

    @property
    def what(self) -> str:
        """The table or query as configured, for messages."""
        if self.table is None:
            return "query"
        return self.table if self.schema_name is None else f"{self.schema_name}.{self.table}"

    @property
    def zone(self) -> tzinfo | None:
        """`cursor_time_zone`."""
        return None if self.cursor_time_zone is None else _zone(self.cursor_time_zone)

    @property
    def start(self) -> str:
        """`start_from`, as text for the database to read."""
        return plain_text(self.start_from)

    @property
    def parses_json(self) -> bool:
        """Whether `json` columns hold Python's values: a column of a `pyarrow.Table` has one type."""
        return self.json_values == "parsed" and self.format == "rows"

    @property
    def asks_for_bound(self) -> bool:
        """Whether the configuration says below which kind of bound rows are read, so that a person has accepted it."""
        return self.bound != "auto" or self.stamped_by == "application"

    @property
    def skip_nulls(self) -> bool:
        """Whether rows without a cursor are skipped."""
        return self.on_null_cursor == "skip"

    @property
    def extra_delay(self) -> timedelta:
        """What `commit_delay` adds to an exact bound: nothing, unless it is set."""
        return self.commit_delay if "commit_delay" in self.model_fields_set else timedelta(0)


def read_options(given: Mapping[str, Any]) -> Options:
    """Check the keywords of `SqlSource`. Raises: ConfigError naming the key."""
    options = checked_keywords(Options, given)
    kind = options.cursor_kind
    check_bound(options.bound, kind)
    if options.extra_delay and kind in _NO_TIME:
        raise ConfigError(
            f"`commit_delay` has no effect on a cursor of kind {kind}, whose bound is not a time.",
            key="commit_delay",
            next_step="Remove it; the kind needs none.",
        )
    if options.stamped_by == "application":
        _check_stamped_by_application(options)
    if not options.allow_dst and isinstance(options.zone, ZoneInfo) and has_daylight_saving(options.zone):
        raise ConfigError(
            f"`cursor_time_zone` is {options.cursor_time_zone!r}, whose clocks are set back once a year: rows written"
            " in the hour that then repeats can be skipped.",
            key="cursor_time_zone",
            next_step="Store UTC, or accept it with `allow_dst = true`.",
        )
    return options


def check_bound(wanted: str, kind: CursorKind, family: str | None = None, offered: Sequence[str] = ()) -> None:
    """Refuse a bound that does not exist for a kind of cursor, or in a family of databases, which has those `offered`.
    Needs no connection.

    Raises: ConfigError naming `bound` or `cursor_kind`.
    """
    if wanted not in _BOUNDS:
        raise ConfigError(
            f"`bound` is {wanted!r}, not one of {', '.join(_BOUNDS)}.", key="bound", next_step='Use "auto".'
        )
    owner = _KNOWN_BY_DATABASE.get(kind)
    if owner is not None and wanted not in ("auto", "exact", "none"):
        raise ConfigError(
            f"`bound` is {wanted}, but the database itself bounds a column of kind {kind}.",
            key="bound",
            next_step='Use "auto".',
        )
    if family is None:
        return
    if owner is not None and family != owner:
        raise ConfigError(
            f"`cursor_kind` is {kind}, which only {owner} has, and `url` names a {family} database.",
            key="cursor_kind",
            next_step='Use "timestamp+pk" or "integer+pk".',
        )
    if wanted not in ("auto", "heuristic", "none", *offered):
        raise ConfigError(
            f"`bound` is {wanted}, which {family} does not support.",
            key="bound",
            next_step=f"Use one of {', '.join(('auto', *offered, 'heuristic'))}.",
        )


def _check_stamped_by_application(options: Options) -> None:
    kind, bound = options.cursor_kind, options.bound
    if kind in _NO_TIME:
        raise ConfigError(
            f"`stamped_by` is application, but only the database fills a column of kind {kind}.",
            key="stamped_by",
            next_step="Remove it.",
        )
    if bound not in {"auto", "heuristic", "none"}:
        raise ConfigError(
            f"`bound` is {bound} and `stamped_by` is application: what is open in the database says nothing of when an"
            " application took its values.",
            key="bound",
            next_step='Set bound = "auto", which is then the heuristic, or stamped_by = "database".',
        )


def _zone(name: str) -> tzinfo:
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"`cursor_time_zone` is {name!r}, which is not an IANA time zone.",
            key="cursor_time_zone",
            next_step='Use a name such as "UTC" or "Europe/Berlin".',
        ) from None
