"""The options as keywords of `Poller` and `SqlSource`, for type checkers and editors.

Meaning, defaults and limits are at the models in `options.py`. A type checker cannot read keywords out of a model, so
names and types stand here once more; `tests/unit/config/test_keywords.py` compares the two.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Literal, TypedDict

from pydantic import BaseModel

from poller.config.types import BoundChoice
from poller.model.cursor import CursorKind
from poller.model.handover import Mode


class PollerKeywords(TypedDict, total=False):
    """Every key of `[pollers.NAME]`; see `PollerOptions`."""

    handler: str | None
    schedule: str
    wake: Literal["auto", "off"]
    batch_size: int
    batch_bytes: int | str | None
    max_batches_per_tick: int
    tick_timeout: timedelta | str
    handler_timeout: timedelta | str | None
    lease_ttl: timedelta | str
    heartbeat_interval: timedelta | str
    max_attempts: int
    on_poison: Mode
    retry_backoff: timedelta | str
    retry_backoff_max: timedelta | str
    ordering_key: Sequence[str]
    max_aside: int
    max_quarantined: int
    quarantine_ttl: timedelta | str
    read_ahead: int
    page_size: int | None
    concurrency: int
    max_uncommitted: int | None
    max_lag: timedelta | str | None
    max_bound_age: timedelta | str | None
    isolation: Literal["thread", "process"]
    error_text: bool
    audit_window: timedelta | str | None
    recheck_every: int


class SourceKeywords(TypedDict, total=False):
    """Every key of `[pollers.NAME.source]` but `url`; see `SourceOptions`."""

    schema: str | None
    table: str | None
    query: str | None
    columns: Sequence[str] | None
    capture: bool
    capture_url_env: str | None
    cursor_column: str
    cursor_kind: CursorKind
    cursor_time_zone: str | None
    allow_dst: bool
    pk_columns: Sequence[str]
    filter: str | None
    start_from: str | int | datetime | date
    on_null_cursor: Literal["fail", "skip"]
    query_timeout: timedelta | str
    bound: BoundChoice
    settle: timedelta | str
    bound_ignore_users: Sequence[str]
    json: Literal["parsed", "text"]
    identity: bool | str
    format: Literal["rows", "arrow"]


def signature(taker: type, model: type[BaseModel]) -> inspect.Signature:
    """What `help()` shows of a class whose last argument is `**options`: each option with its default."""
    own = list(inspect.signature(taker).parameters.values())[:-1]
    options = [
        inspect.Parameter(
            field.alias or name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.is_required() else field.default,
        )
        for name, field in model.model_fields.items()
    ]
    return inspect.Signature([*own, *options])
