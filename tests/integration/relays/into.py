"""Relays into a database, and what they left there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from sqlalchemy import Engine, text

from poller.relays import Relay

Made: TypeAlias = Callable[..., Relay[Any]]


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def rows_of(engine: Engine, wanted: str = "SELECT id, name FROM copy ORDER BY id") -> list[Any]:
    with engine.connect() as connection:
        return [tuple(one) for one in connection.execute(text(wanted))]
