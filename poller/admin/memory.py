"""What looks at the pollers of an application remember: in this process, and of it in the store what a process that
asks once needs of the one before.

`health/{app_name}.json` holds moments alone. No result is ever read back from a store: a caller who can write there
could make a halted poller healthy. A moment counts between a poller's last progress and now: a forged one makes an
alarm that is false, or delays one of rows that do not say themselves since when they wait. A document that is not small
(`LARGEST`) counts for nothing.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextlib import suppress
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from poller import forks
from poller.errors import StoreDenied, StoreError
from poller.model.limits import NotBoundedJson, read_json
from poller.model.memory import PollerMemory
from poller.ports import Found, StateStore, Unchanged

LARGEST = 65_536
"""Bytes: of about 700 pollers that all wait without a sign of when."""


class _MemoryDocument(BaseModel):
    model_config = ConfigDict(frozen=True)

    version: Literal[2] = 2
    seen: dict[str, PollerMemory] = {}


class LookMemory:
    """The memory of the pollers of one application. One caller at a time."""

    def __init__(self, store: StateStore, app_name: str) -> None:
        self._store = store
        self._name = f"health/{app_name}.json"
        self._forget()
        forks.in_child(self._forget)

    def _forget(self) -> None:
        self._seen: dict[str, PollerMemory] = {}
        """All that looks of this process have seen."""
        self._kept = _MemoryDocument()
        self._tag: str | None = None

    def read(self) -> Mapping[str, PollerMemory]:
        """What is remembered of each poller. Raises: StoreUnavailable. What this process may not read is nothing."""
        try:
            answer = self._store.read(self._name, unless=self._tag)
        except StoreDenied:
            return self._seen
        if not isinstance(answer, Unchanged):
            self._kept = _parsed(answer.body) if isinstance(answer, Found) else _MemoryDocument()
            self._tag = answer.tag if isinstance(answer, Found) else None
        return {**self._kept.seen, **self._seen}

    def note(
        self, seen: Mapping[str, PollerMemory], kept: Mapping[str, PollerMemory], configured: Container[str]
    ) -> None:
        """Remember what looks saw. `kept`: what must outlive this process, by poller; it is written if it is
        not what is there. `configured`: others are forgotten. Raises nothing of a store: the next look writes it."""
        self._seen.update(seen)
        others = {name: one for name, one in self._kept.seen.items() if name not in seen and name in configured}
        wanted = _fitting({**others, **kept})
        if wanted == self._kept.seen:
            return
        document = _MemoryDocument(seen=wanted)
        with suppress(StoreError):
            body = document.model_dump_json(exclude_none=True).encode()
            self._tag = self._store.write(self._name, body, if_tag=self._tag).tag
            self._kept = document


def _fitting(seen: Mapping[str, PollerMemory]) -> dict[str, PollerMemory]:
    """As many as a document may hold."""
    room, found = LARGEST - 100, dict[str, PollerMemory]()
    for name, one in sorted(seen.items()):
        room -= len(name) + len(one.model_dump_json(exclude_none=True)) + 4
        if room < 0:
            break
        found[name] = one
    return found


def _parsed(body: bytes) -> _MemoryDocument:
    """What is in a body; nothing, if that is not ours."""
    try:
        found = _MemoryDocument.model_validate(read_json(body, LARGEST))
    except (NotBoundedJson, ValidationError):
        return _MemoryDocument()
    return found.model_copy(update={"seen": {name: one.for_others() for name, one in found.seen.items()}})
