"""What is remembered of a bound stands in a document that others may write: it is taken in whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from poller.databases.samplers import ALONE, Samplers, SharedSampler
from poller.sources.bound import Rule
from poller.sources.columns import CursorColumn, Family
from poller.sources.postgresql.bound import Observed
from tests.integration.bounds.pretended import STAMP, Process, asked
from tests.support.foreign import VALUES, paths, with_value

AT = "2026-01-01T00:00:00+00:00"
BELOW = {"checkpoint": "7", "next": "5"}
LOOKS = {"server": "s", "sampled_at": AT, "open": {"1": AT}}


def observed() -> SharedSampler:
    unused: Any = None
    return Samplers().join(ALONE, lambda _: Observed((), "s"), unused, kind="observed", ignored=(), numbers=False)


def process(kind: str, column: CursorColumn, *, keeps: Any = "", samples: SharedSampler | None = None) -> Process:
    timed = column is STAMP
    keys = {} if timed else {"cursor_kind": "integer+pk", "cursor_time_zone": None}
    return Process(Rule(kind, "", column, keeps=keeps), asked(column, **keys).options, samples)


NUMBER = CursorColumn("id", Family.INTEGER)
KINDS: dict[str, tuple[Callable[[], Process], dict[str, Any]]] = {
    "observed": (lambda: process("observed", STAMP, samples=observed()), LOOKS),
    "counter": (
        lambda: process("observed", NUMBER, keeps="counts", samples=observed()),
        {"counts": [[AT, 7]], "samples": LOOKS},
    ),
    "highest": (lambda: process("heuristic", NUMBER, keeps="seen"), {"seen": [[AT, "7"]]}),
}


def moments(data: Any) -> list[datetime]:
    """Every text in it that is a moment."""
    found = []
    for path in paths(data):
        value = data
        for part in path:
            value = value[part]
        try:
            found.append(datetime.fromisoformat(value))
        except (TypeError, ValueError):
            continue
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_foreign_value_is_taken_in_whole_or_not_at_all(kind: str) -> None:
    make, samples = KINDS[kind]
    memory = {"kind": make().rule.kind, "clock": AT, "at": AT, "limits": True, "samples": samples, "below": BELOW}
    for path in list(paths(memory))[1:]:
        for value in VALUES:
            keeper = make()
            before = keeper.remember()
            try:
                keeper.recall(with_value(memory, path, value))
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                assert keeper.remember() == before, (path, value)
            kept = keeper.remember() or {}
            json.dumps(kept)
            kept.pop("below", None)  # a cursor's text, which may be any
            assert all(moment.tzinfo for moment in moments(kept)), (path, value)


@pytest.mark.parametrize("kind", KINDS)
def test_what_one_process_remembered_another_takes_in(kind: str) -> None:
    make, samples = KINDS[kind]
    keeper = make()
    keeper.recall({"kind": make().rule.kind, "clock": AT, "samples": samples})
    assert keeper.remember() == {"kind": make().rule.kind, "clock": AT, "samples": samples}
