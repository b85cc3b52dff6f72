"""What a document says of its backfill: whose range it is, its begin and end, and whether it was delivered.

A backfill's document says so from its first write, in its checkpoint's metadata. One that an earlier version began is
known by its source: a poller's, with `from` and `to` beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poller.backfill.ranges import Range
from poller.lease.state_file import Copy
from poller.model.cursor import Cursor, KeyValue
from poller.model.document import State
from poller.model.part_names import FINISHED, MOST_PARTS, base, part_of, part_suffix
from poller.model.stamps import stamp
from poller.ports import StateStore

ORIGIN = "backfill"
"""The key in a checkpoint's metadata that says whose range it is, who began it and when."""


# --- its name


LONGEST_NAME = 63 - len(part_suffix(MOST_PARTS, MOST_PARTS))
"""A backfill's name has at most so many letters, so that its parts' names are still names."""


def default_name(of: str, begins: str, ends: str, fingerprint: str) -> str:
    """A name that holds the range and the source, so that each has one of its own."""
    tail = "-backfill-" + hashlib.sha256(f"{begins}\n{ends}\n{fingerprint}".encode()).hexdigest()[:8]
    return of[: LONGEST_NAME - len(tail)] + tail


def free_name(of: str, store: StateStore, app_name: str, *, taken: Collection[str]) -> str:
    """For a range once more: the first name of its kind that nothing has; `taken`: by other pollers.

    Raises: StoreUnavailable, StoreDenied.
    """
    prefix = f"state/{app_name}/"
    names = {one.removeprefix(prefix).removesuffix(".json") for one in store.names(prefix)}
    all_taken = names | {base(name) for name in names} | set(taken)
    number = 1
    while True:
        tail = "-again" if number == 1 else f"-again-{number}"
        name = of[: LONGEST_NAME - len(tail)] + tail
        if name not in all_taken:
            return name
        number += 1


# --- what it says


def origin(of: str, whole: Range, *, by: str, at: datetime, cuts: Sequence[Cursor] = ()) -> dict[str, Any]:
    """What a new document's metadata says of where it comes from.

    Args:
        whole: the range before it was cut into parts. cuts: where, if between rows: they come and go, and each
            later run cuts it at the same places.
    """
    facts = {"of": of, "from": whole.low.value, "to": whole.high.value, "by": by, "at": stamp(at)}
    return {ORIGIN: facts | ({"cuts": [one.model_dump(mode="json") for one in cuts]} if cuts else {})}


@dataclass(frozen=True, slots=True)
class Document:
    """A backfill's document, or that of one of its parts.

    Attributes:
        of: the configured poller that it belongs to, None if none does, or if that was not looked up.
        begun_for: the poller's name when it was begun.
        begins, ends: its stretch; begins_key, ends_key: the keys that it is cut by, if it is.
        whole: the range of all parts, if it is known.
        by, at: who began it, and when, if that was written down. cuts: of all parts, if they are cut by keys.
    """

    name: str
    location: str
    copy: Copy
    begins: str
    ends: str
    of: str | None = None
    begun_for: str | None = None
    whole: tuple[str, str] | None = None
    by: str | None = None
    at: datetime | None = None
    begins_key: dict[str, KeyValue] | None = None
    ends_key: dict[str, KeyValue] | None = None
    cuts: tuple[Cursor, ...] = ()

    @property
    def state(self) -> State:
        """What it says."""
        return self.copy.state

    @property
    def finished(self) -> bool:
        """True if every row of it was delivered."""
        return FINISHED in self.state.checkpoint.metadata

    @property
    def finished_at(self) -> datetime | None:
        """When that was; None while it was not."""
        return _moment(self.state.checkpoint.metadata.get(FINISHED))

    @property
    def base(self) -> str:
        """The backfill's name, without the part's number."""
        return base(self.name)


def recognised(name: str, location: str, copy: Copy) -> Document | None:
    """What the state document of that name says of a backfill; None if it is not a backfill's."""
    source = copy.state.source or {}
    begins, ends = _text(source, "from"), _text(source, "to")
    if begins is None or ends is None:
        return None
    kept = copy.state.checkpoint.metadata.get(ORIGIN)
    facts: dict[str, Any] = kept if isinstance(kept, dict) else {}
    first, last = _text(facts, "from"), _text(facts, "to")
    whole = (first, last) if first is not None and last is not None else None
    if whole is None and part_of(name) is None:
        whole = (begins, ends)
    return Document(
        name=name,
        location=location,
        copy=copy,
        begins=begins,
        ends=ends,
        begun_for=_text(facts, "of"),
        whole=whole,
        by=_text(facts, "by"),
        at=_moment(facts.get("at")),
        begins_key=_key(source.get("from_key")),
        ends_key=_key(source.get("to_key")),
        cuts=_cuts(facts.get("cuts")),
    )


def _moment(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def _text(facts: dict[str, Any], key: str) -> str | None:
    value = facts.get(key)
    return value if isinstance(value, str) else None


def _key(value: Any) -> dict[str, KeyValue] | None:
    whole = isinstance(value, dict) and all(isinstance(one, int | str) for one in value.values())
    return value if whole else None


def _cuts(value: Any) -> tuple[Cursor, ...]:
    try:
        return tuple(Cursor.model_validate(one) for one in value or ())
    except (TypeError, ValueError):
        return ()
