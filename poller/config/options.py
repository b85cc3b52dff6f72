"""Every key of a poller and of its source as a frozen model: its type, its default, what it means (design,
"Configuration"). The other tables of `poller.toml` are in `tables.py`.

`docs/configuration.md` and `schemas/config.schema.json` are generated from both. A key that the Python API takes as a
keyword is the same field, so that there is one definition; `keywords.py` names the fields for type checkers.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from poller.config import former
from poller.config.relays import check_relay_name
from poller.config.types import (
    BoundChoice,
    Duration,
    HandlerName,
    PositiveDuration,
    ScheduleText,
    Size,
    StartFrom,
)
from poller.model.aside import Limits
from poller.model.backoff import Backoff
from poller.model.cursor import CursorKind
from poller.model.documented import Documented
from poller.model.durations import parse_duration
from poller.model.handover import Mode
from poller.model.timing import Timing

Text = Annotated[str, Field(min_length=1)]
Column = Annotated[str, Field(min_length=1)]

PAGE_BYTES = 64_000_000
"""About how many bytes of rows are read ahead in one page."""


class Options(Documented):
    """Frozen; unknown keys are errors; no input value is ever repeated in an error (it may be a secret)."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        populate_by_name=True,
        serialize_by_alias=True,
    )


class PollerOptions(Options):
    """How one poller works. Each field is a key of `[pollers.NAME]` and a keyword of `poller.Poller`."""

    handler: HandlerName | None = None
    """The function that gets each batch, as `module:function`; the module is beside `poller.toml`. Or a relay,
    which needs no code: `poller.relays:NAME` (docs/relays.md). Needed by `poller run` and by Functions, not by commands
    that only look."""

    schedule: ScheduleText = "*/10 * * * * *"
    """When ticks start: NCRONTAB with six fields (second minute hour day month day-of-week), in UTC. `poller run`
    follows it, and so do timers in Functions."""

    wake: Literal["auto", "off"] = "auto"
    """When `poller run` looks between two moments of `schedule`. `auto`: 20 ms after a row, then after pauses that
    double while nothing comes, for at most a minute; a row that only waits for `settle` is read when it is old enough.
    Not if the schedule's next moment is more than five minutes away: such a schedule means a time of day. `off`: never,
    for fewer queries and writes, and larger batches. Timers in Functions do not use it."""

    batch_size: int = Field(default=500, ge=1, le=1_000_000)
    """The most rows in one batch."""

    batch_bytes: Size | None = None
    """About how large a batch may be: it ends before the row that would make it larger, and has at least one. Counted
    are texts as UTF-8, binary values and documents, and 16 bytes for each other value. Default:
    `batch_size` alone counts."""

    max_batches_per_tick: int = Field(default=0, ge=0)
    """The most calls of the handler in one tick: each batch, each try of a row that was set aside, and each part of a
    batch that is searched for the row that fails. Tries and batches take turns then, from tick to tick too. 0: no
    limit, a tick ends when no row is left or its time is over."""

    tick_timeout: PositiveDuration = timedelta(minutes=4, seconds=30)
    """The time that a tick may take: it starts no batch that might not finish within this time. Keep it below
    `functionTimeout` in `host.json`."""

    handler_timeout: PositiveDuration | None = None
    """The time that one call of the handler may take. After that the lease is no longer renewed and the batch is given
    up, so that a hung handler does not block its poller for ever. Default: `tick_timeout`."""

    lease_ttl: PositiveDuration = timedelta(seconds=60)
    """The time that a lease lasts without a heartbeat: the least time before another worker takes over from one that
    was killed."""

    heartbeat_interval: PositiveDuration = timedelta(seconds=15)
    """The interval at which a lease is renewed while a batch is handled; at most a third of `lease_ttl`. Default: 15
    seconds, or a quarter of `lease_ttl` where that is less."""

    max_attempts: int = Field(default=5, ge=1)
    """The times that a failing batch is tried as a whole, before the row that fails is searched for. Also the times a
    row alone may fail before the poller halts (`on_poison = "halt"`), or the row waits for a person
    (`"quarantine"`)."""

    on_poison: Mode = "block"
    """What happens to the row that fails. `block`: it is tried again and again, nothing behind it is delivered. `halt`:
    the same, but after `max_attempts` failures of the row alone the poller stops until an operator resumes it.
    `quarantine`: the row is set aside and retried automatically while the others go on; if nothing helps, it waits for
    a person (`poller quarantine`). No mode skips a row."""

    retry_backoff: PositiveDuration = timedelta(seconds=1)
    """The time to wait after a failed call; doubled with each failure in a row, up to `retry_backoff_max`. Half of it
    is chosen by chance."""

    retry_backoff_max: PositiveDuration = timedelta(minutes=5)
    """The longest wait after a failed call."""

    ordering_key: tuple[Column, ...] = ()
    """The columns within whose values rows are handled in order, such as `customer_id`: in the mode `quarantine` a row
    waits behind an earlier one with the same values that is set aside. Default: the key columns."""

    max_aside: int = Field(default=10, ge=1, le=1000)
    """The most failing rows that are set aside before the next one blocks: an outage of what the handler calls then
    sets no more aside."""

    max_quarantined: int = Field(default=100, ge=1, le=1000)
    """The most rows that may wait in all, for another try or for a person; while so many do, the next one that has to
    wait blocks."""

    quarantine_ttl: PositiveDuration = timedelta(days=90)
    """The time that the record of a row that waited is kept after it was delivered, replayed or discarded."""

    read_ahead: int = Field(default=1, ge=0, le=1)
    """The number of pages that are read while the handler works on what was read before. `0`: every batch is read when
    the one before is committed, so that it shows what the handler wrote to the table."""

    page_size: int | None = Field(default=None, ge=1, le=1_000_000)
    """The most rows that one query reads, for several batches; rounded down to whole batches. Default: 1000, or two
    batches for each of `concurrency` where that is more. With `read_ahead = 0` a page is one batch. Large rows make
    smaller pages: of about 64 MB, or of `batch_bytes` if that is larger, but at least one batch."""

    concurrency: int = Field(default=1, ge=1, le=64)
    """The number of batches that are handled at once, in as many lanes. Rows of one `ordering_key` are of one lane and
    stay in order; rows of different ones may overtake each other."""

    max_uncommitted: int | None = Field(default=None, ge=1, le=1000)
    """The most batches that are begun beyond the last one that is committed, which a crash repeats. `1`: a batch is
    committed before the next one begins. More, such as 4: the handler goes on meanwhile, and what is done in that time
    shares the next write; faster with small batches. Default: 1; with lanes, 4 for each of `concurrency`."""

    max_lag: PositiveDuration | None = None
    """How late a row may be before `poller health` calls the poller unhealthy: counted from the first moment of
    `schedule` after the row became readable. Default: 5 minutes and `lease_ttl`, and only while nothing is
    committed."""

    max_bound_age: PositiveDuration | None = None
    """The time that rows may wait for an open transaction before `poller health` calls the poller unhealthy. Default:
    any time; who holds them is reported."""

    isolation: Literal["thread", "process"] = "thread"
    """Where the handler runs. `thread`: on the caller's thread; a hung one cannot be ended. `process`: in a child
    process, which is ended at `handler_timeout`, with all programs and processes that the handler started in it; its
    start does not count. If the poller's own process is killed or stopped, the child ends itself."""

    error_text: bool = True
    """True if the first line of a handler's error is stored and shown, and what the database says of a value that it
    cannot use; `false` keeps only type and code, where such errors may quote rows."""

    audit_window: PositiveDuration | None = None
    """Record what was delivered, so that `poller recheck` finds rows that appeared under the cursor within this
    time: 8 bytes a row in side documents under `seen/`, one more write per batch. Default: nothing is recorded."""

    recheck_every: int = Field(default=0, ge=0)
    """Every how many ticks to search `audit_window` for rows that were never delivered, and report them (event and
    metric `late_rows`); 0: only when `poller recheck` is run."""

    @field_validator("handler")
    @classmethod
    def _relay_exists(cls, handler: str | None) -> str | None:
        return check_relay_name(handler)

    @model_validator(mode="before")
    @classmethod
    def _heartbeat_follows_ttl(cls, data: Any) -> Any:
        """A shorter lease alone is not a contradiction: its heartbeat is shorter too."""
        if isinstance(data, dict) and "heartbeat_interval" not in data and "lease_ttl" in data:
            with suppress(ValueError, AttributeError):
                quarter = parse_duration(data["lease_ttl"]) / 4
                return {**data, "heartbeat_interval": min(quarter, timedelta(seconds=15))}
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.retry_backoff > self.retry_backoff_max:
            raise PydanticCustomError("timing", "must be at most retry_backoff_max", {"key": "retry_backoff"})
        if len(set(self.ordering_key)) < len(self.ordering_key):
            raise PydanticCustomError("names", "names a column twice", {"key": "ordering_key"})
        if self.recheck_every and self.audit_window is None:
            raise PydanticCustomError("recheck", "needs audit_window", {"key": "recheck_every"})
        if self.max_uncommitted is not None and self.concurrency > self.max_uncommitted:
            reason = "must be at least concurrency: so many batches are handled at once"
            raise PydanticCustomError("commit", "{reason}", {"key": "max_uncommitted", "reason": reason})
        if self.handler_timeout is not None and self.handler_timeout > self.tick_timeout:
            raise PydanticCustomError(
                "timing",
                "must be at most tick_timeout: a tick starts no batch that it may not finish within it",
                {"key": "handler_timeout"},
            )
        try:
            _ = self.timing
        except ValueError as error:
            key, _, reason = str(error).partition(": ")
            raise PydanticCustomError("timing", "{reason}", {"key": key, "reason": reason}) from error
        return self

    @property
    def timing(self) -> Timing:
        """The numbers of the lease."""
        return Timing(ttl=self.lease_ttl.total_seconds(), heartbeat=self.heartbeat_interval.total_seconds())

    @property
    def grouped(self) -> bool:
        """True if the handler goes on while a batch is committed."""
        return self.most_uncommitted > 1

    @property
    def page_bytes(self) -> int:
        """About how many bytes of rows a page holds, if that is more than one batch."""
        return max(PAGE_BYTES, self.batch_bytes or 0)

    @property
    def most_uncommitted(self) -> int:
        """`max_uncommitted`, or its default."""
        return self.max_uncommitted or (1 if self.concurrency == 1 else 4 * self.concurrency)

    @property
    def limits(self) -> Limits:
        """The limits of tries of a failing row, and of rows that wait."""
        return Limits(
            max_attempts=self.max_attempts,
            max_aside=self.max_aside,
            max_quarantined=self.max_quarantined,
            backoff=Backoff(self.retry_backoff.total_seconds(), self.retry_backoff_max.total_seconds()),
        )

    @property
    def handler_limit(self) -> timedelta:
        """`handler_timeout`, or `tick_timeout` where it is not set."""
        return self.tick_timeout if self.handler_timeout is None else self.handler_timeout


_NOT_CAPTURED = (
    "query", "filter", "cursor_column", "cursor_kind", "cursor_time_zone", "allow_dst", "pk_columns", "on_null_cursor"
)  # fmt: skip
"""Keys that say what a captured table leaves no choice of."""


class SourceOptions(Options):
    """Which rows are read, and in which order. Each field is a key of `[pollers.NAME.source]` and a keyword of
    `poller.sources.SqlSource`."""

    schema_name: Text | None = Field(default=None, alias="schema")
    """The schema of the table; default: the default schema of the connection."""

    table: Text | None = None
    """The table or view to read. Give this or `query`."""

    query: Text | None = None
    """A SELECT to read instead of a table; it is wrapped as a subquery. `%` has no special meaning in it."""

    columns: tuple[Column, ...] | None = Field(default=None, min_length=1)
    """Only these columns reach the handler (cursor and key columns always do). Default: all."""

    capture: bool = False
    """True: read the changes that the triggers of `poller capture` record of `table`, deletes among them
    (docs/capture.md). Cursor and key are those of the change table then, and are not set here."""

    capture_url_env: Text | None = None
    """The setting that has the URL of a user who may create triggers, for `poller capture` and
    for pruning."""

    cursor_column: Column = ""
    """The column whose value grows with every change, such as `updated_at`. Required, unless `capture` is true."""

    cursor_kind: CursorKind = "timestamp+pk"
    """What that column is: a time, a number that the database hands out, SQL Server's `rowversion`, or PostgreSQL's
    transaction id."""

    cursor_time_zone: Text | None = None
    """What the times of a column without a zone mean, such as `UTC`; required for such columns."""

    allow_dst: bool = False
    """Accept a `cursor_time_zone` with daylight saving time: rows of the hour that comes twice each autumn
    wait until its second time."""

    pk_columns: tuple[Column, ...] = Field(default=(), min_length=1)
    """The columns that identify a row: unique together and NOT NULL. Required, unless `capture` is true."""

    filter: Text | None = None
    """Only rows for which this SQL predicate holds: one expression; it is put in parentheses. `%` has no special
    meaning in it."""

    start_from: StartFrom = "beginning"
    """Where the very first tick starts: `beginning`, `now`, or a value of the cursor column. For a captured table
    `snapshot`, the default, delivers its rows first, `beginning` each change since it was installed, and `now` later
    ones (docs/capture.md). Afterwards the checkpoint decides. If the schedule has pauses of more than five minutes,
    `now` is when the poller is first looked at, soon after its process starts."""

    on_null_cursor: Literal["fail", "skip"] = "fail"
    """What happens to rows without a value in the cursor column: they stop the poller, or are never delivered."""

    query_timeout: PositiveDuration = timedelta(seconds=30)
    """The time that a query may take; one that takes longer is cancelled."""

    bound: BoundChoice = "auto"
    """How rows that commit late are waited for. `auto` takes the best way that the database and the user's privileges
    allow, and reports which; `exact` refuses any other than an exact one; `strict`, on PostgreSQL, guards several
    transactions in one message without the privilege that an exact one needs; `delay`: rows are read once they are
    `settle` old, and if a transaction stays open longer, its rows are missed. So also if the application sets the
    times, whose zone cannot be checked. `none`: rows are read at once."""

    settle: Duration = timedelta(seconds=1)
    """The time that a row may stay invisible after it took its timestamp. If the bound is a delay, asked for or fallen
    back to: how far it lies behind the present time, and the default is `5s`. Numbers and SQLite need it only if it is
    set."""

    bound_ignore_users: tuple[Column, ...] = ()
    """Database users that only read, such as that of a nightly dump: their transactions do not hold the bound back."""

    json_values: Literal["parsed", "text"] = Field(default="parsed", alias="json")
    """What PostgreSQL's `json` and `jsonb` columns hold: Python's values, or the server's text, which costs less. The
    other databases' drivers return text."""

    identity: bool | Text = False
    """Sign in to the database with a Microsoft Entra identity instead of a password. `true`: the app's own, or that of
    the client id in `AZURE_CLIENT_ID`; a text such as `"ORDERS_DB"`: that of the app settings `ORDERS_DB__clientId` and
    `ORDERS_DB__credential`. Needs verified TLS, and a `url` without a password."""

    format: Literal["rows", "arrow"] = "rows"
    """What a batch holds. `rows`: one dict per row. `arrow`: also `batch.table`, a `pyarrow.Table`; `batch.rows` is
    made where the handler asks for it. Needs the extra `arrow`; `json` is then `text`."""

    @model_validator(mode="before")
    @classmethod
    def _begins_with_its_rows(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("capture") is True and "start_from" not in given:
            return {**given, "start_from": "snapshot"}
        return given

    @field_validator("pk_columns", "columns")
    @classmethod
    def _once_each(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if names is not None and len(set(names)) < len(names):
            raise PydanticCustomError("names", "names a column twice")
        return names

    @field_validator("bound", mode="before")
    @classmethod
    def _no_former_bound(cls, bound: object) -> object:
        if isinstance(bound, str) and bound in former.BOUNDS:
            raise PydanticCustomError("former", "is a value that went", {"step": former.BOUNDS[bound]})
        return bound

    @model_validator(mode="after")
    def _one_of_table_and_query(self) -> Self:
        if (self.table is None) == (self.query is None):
            key = "table" if self.table is None else "query"
            reason = "is missing: give table or query" if self.table is None else "and table exclude each other"
            raise PydanticCustomError("table_or_query", "{reason}", {"key": key, "reason": reason})
        if self.query is not None and self.schema_name is not None:
            raise PydanticCustomError("table_or_query", "goes with table; name it inside query", {"key": "schema"})
        if not self.capture:
            if str(self.start_from) == "snapshot":
                reason = "is snapshot, which needs capture = true"
                raise PydanticCustomError("capture", "{reason}", {"key": "start_from", "reason": reason})
            for key in ("cursor_column", "pk_columns"):
                if key not in self.model_fields_set:
                    raise PydanticCustomError("missing", "is missing", {"key": key})
        if self.format == "arrow" and self.json_values == "parsed" and "json_values" in self.model_fields_set:
            reason = 'is arrow, where JSON is text, and json is parsed: remove json, or set format = "rows"'
            raise PydanticCustomError("arrow", "{reason}", {"key": "format", "reason": reason})
        return self

    @model_validator(mode="after")
    def _fits_capture(self) -> Self:
        if not self.capture:
            return self
        given = [key for key in _NOT_CAPTURED if key in self.model_fields_set]
        reason = "does not go with capture = true: cursor and key are those of the change table"
        if given and given[0] in ("query", "filter"):
            reason = "does not go with capture = true: every change of a table is read"
        if self.format == "arrow":
            given, reason = ["format"], "is arrow, and the changes of a captured table are rows: remove it"
        if str(self.start_from) not in ("snapshot", "beginning", "now"):
            given, reason = ["start_from"], "must be snapshot, beginning or now for a captured table"
        if given:
            raise PydanticCustomError("capture", "{reason}", {"key": given[0], "reason": reason})
        return self
