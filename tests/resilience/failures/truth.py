"""What the laws need to know: the truth, which only a simulation has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from poller.model import aside
from poller.model.aside import Limits
from poller.model.document import State
from poller.model.handover import Mode
from tests.resilience.failures.versions import Table


@dataclass(frozen=True)
class Settings:
    """How a process is configured."""

    mode: Mode
    limits: Limits
    batch_size: int


class OpenOrNot(Protocol):
    """A record: what the laws ask of it."""

    @property
    def status(self) -> str: ...


class Truth(Protocol):
    """What is true now.

    Attributes:
        state: the document. table, records: what stands beside it. seen: how often what happened.
    """

    table: Table
    seen: Counter[str]

    @property
    def state(self) -> State: ...
    @property
    def records(self) -> Mapping[str, OpenOrNot]: ...

    def moment(self) -> datetime:
        """The time, by the store's clock."""
        ...

    def fail(self, message: str) -> None:
        """A law is broken."""
        ...


class Hand(Protocol):
    """Who writes: a tenure's token, and how its process is configured."""

    @property
    def token(self) -> int: ...
    @property
    def settings(self) -> Settings: ...


def amiss(truth: Truth, settings: Settings, done: Collection[str] = ()) -> str | None:
    """What has not come right by itself although nothing is in its way; None where all that can be done is done.
    `done`: ids of rows that lanes have done, which wait for what stands before them."""
    state, limits = truth.state, settings.limits
    known = {*aside.listed(state), *done}
    undone = [row for row in truth.table.page(state.checkpoint.cursor, 1000) if row.id not in known]
    keys = set(aside.heads(state))
    follow = {row.key for row in aside.listed(state).values()}
    full = aside.room(state, limits) <= 1 + sum(row.facts.key in follow for row in undone[: settings.batch_size])
    if settings.mode != "quarantine" or full:
        first = next((row for row in undone if full or row.facts.key not in keys), None)
        held = first is None or first.facts.key in (follow if full else keys) or truth.table.kind(first.id) != "ok"
        return None if held or state.control.halted else f"{first} is good, and was not delivered"
    if undone:
        return f"{[row.id for row in undone]} were not handed over"
    heads = aside.heads(state)
    for row in state.aside:
        head = heads.get(row.key)  # none where it was added by hand, and deleted before it was passed
        if head is not None and head in state.aside and truth.table.kind(head.id) == "ok":
            return f"{head.id} is good, and stays aside"
    return None
