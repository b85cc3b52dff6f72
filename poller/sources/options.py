"""What `SqlSource` was given, checked without a connection, also whether the options fit each other. Every error names
the key it is about."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from poller.config import SourceOptions
from poller.config.load import checked_keywords
from poller.databases.kinds import KINDS
from poller.errors import ConfigError, SourceError
from poller.model.cursor import CursorKind
from poller.sources.columns import has_daylight_saving, plain_text

OF_SERVER = frozenset({"xid8+pk", "rowversion+pk"})
"""Kinds whose bound is one number of the server's own that only grows: samples of several processes agree, and it has
no instant that a delay could be taken from."""

DELAY = timedelta(seconds=5)
"""`settle`, if the bound is a delay and nothing else is set."""


class ReadOptions(SourceOptions):
    """The options of a source, with what follows from them."""

    @property
    def what(self) -> str:
        """The table or query as configured, for messages."""
        if self.table is None:
            return "query"
        return self.table if self.schema_name is None else f"{self.schema_name}.{self.table}"

    def error(self, message: str, *, column: str = "", next_step: str = "", without_values: str = "") -> SourceError:
        """An error of this table or query, which it names first; the rest as of `SourceError`."""
        without = without_values and f"{self.what}: {without_values}"
        return SourceError(
            f"{self.what}: {message}", table=self.what, column=column, next_step=next_step, without_values=without
        )

    def of_changes(self, name: str) -> ReadOptions:
        """Those by which the change table of a captured table is read, with all its columns."""
        of_table = {"table": name, "cursor_column": "id", "cursor_kind": "integer+pk", "pk_columns": ("id",)}
        return self.model_copy(update={**of_table, "columns": None})

    @property
    def zone(self) -> tzinfo | None:
        """`cursor_time_zone`."""
        return None if self.cursor_time_zone is None else _zone(self.cursor_time_zone)

    @property
    def start(self) -> str:
        """`start_from`, as text for the database to read."""
        return plain_text(self.start_from)

    @property
    def is_timed(self) -> bool:
        """True if the cursor is a time."""
        return self.cursor_kind == "timestamp+pk"

    @property
    def parses_json(self) -> bool:
        """True if `json` columns hold Python's values: a column of a `pyarrow.Table` has one type."""
        return self.json_values == "parsed" and self.format == "rows"

    @property
    def asks_for_bound(self) -> bool:
        """True if the configuration says below which kind of bound rows are read, so that a person has accepted it."""
        return self.bound != "auto"

    @property
    def skip_nulls(self) -> bool:
        """True if rows without a cursor are skipped."""
        return self.on_null_cursor == "skip"

    @property
    def delay(self) -> timedelta:
        """How far a bound that is a delay lies behind the present time."""
        return self.settle if self._settles else DELAY

    @property
    def extra_delay(self) -> timedelta:
        """What is subtracted where nothing needs to be: `settle`, if it is set."""
        return self.settle if self._settles else timedelta(0)

    @property
    def _settles(self) -> bool:
        return "settle" in self.model_fields_set


def read_options(given: Mapping[str, Any]) -> ReadOptions:
    """Check the keywords of `SqlSource`. Raises: ConfigError naming the key."""
    options = checked_keywords(ReadOptions, given)
    kind = options.cursor_kind
    check_bound(options.bound, kind)
    if options.extra_delay and kind in OF_SERVER:
        raise ConfigError(
            f"`settle` has no effect on a cursor of kind {kind}, whose bound is not a time.",
            key="settle",
            next_step="Remove it; the kind needs none.",
        )
    if not options.allow_dst and isinstance(options.zone, ZoneInfo) and has_daylight_saving(options.zone):
        raise ConfigError(
            f"`cursor_time_zone` is {options.cursor_time_zone!r}, whose clocks are set back once a year: rows written"
            " in the hour that then repeats wait until it repeats, and come in the order of the times that they show.",
            key="cursor_time_zone",
            next_step="Store UTC, or accept it with `allow_dst = true`.",
        )
    return options


def check_bound(wanted: str, kind: CursorKind, family: str | None = None) -> None:
    """Refuse a bound that does not exist for a kind of cursor, or in a family of databases. Needs no connection.

    Raises: ConfigError naming `bound` or `cursor_kind`.
    """
    owner = next((name for name, known in KINDS.items() if known.own_cursor == kind), None)
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
    named = KINDS[family].bounds if family in KINDS else ()
    if wanted not in ("auto", "delay", "none", *named):
        raise ConfigError(
            f"`bound` is {wanted}, which {family} does not support.",
            key="bound",
            next_step=f"Use one of {', '.join(('auto', *named, 'delay'))}.",
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
