"""Numbers, ages and states, as people read them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from poller.model.view import title
from poller.model.when import ago, moment, parsed, took

Kind: TypeAlias = Literal["bad", "warn", "good", "calm"]
NOTHING = "–"
"""Where nothing is known, or there is nothing."""


@dataclass(frozen=True, slots=True)
class PageWord:
    """What a poller is doing, in a word; `kind` says whether anybody should care."""

    word: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class When:
    """A moment: how long ago it was, or in what time it comes, and its date and time."""

    age: str
    exact: str


KINDS: Mapping[str, Kind] = {"unhealthy": "bad", "warning": "warn", "well": "good"}


def condition(health: Mapping[str, Any]) -> PageWord:
    """The word of a poller's health."""
    word = health["word"]
    return PageWord(title(word), "calm" if word == "new" else KINDS[health["severity"]])


def number(value: int | None, *, at_least: bool = False) -> str:
    """`12,345`, or `10,000+`."""
    return NOTHING if value is None else f"{value:,}{'+' if at_least else ''}"


def seconds(value: float | None) -> str:
    """A time span: `250 ms`, `1.5 s`, `3 min`, `2 h 5 min`."""
    return NOTHING if value is None or not math.isfinite(value) else took(value)


def rate(value: float | None) -> str:
    """A number with the digits that matter: `0.05`, `4.2`, `1,230`, `12.5k`, `2M`."""
    if value is None:
        return NOTHING
    if value >= 10_000:
        return f"{value / 1e6:,.3g}M" if value >= 999_500 else f"{value / 1000:.3g}k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def when(at: datetime | str | None, now: datetime) -> When | None:
    """A moment as it is seen at `now`; None for no moment, and for a text that is none."""
    seen = parsed(at) if isinstance(at, str) else at
    return None if seen is None else When(ago(seen, now), moment(seen))
