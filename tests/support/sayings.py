"""Handlers that say what a table lists, wherever they run: a case crosses to another process as plain values."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import UserDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from poller import Batch, Reject, RetryLater

FORM = "batchItemFailures"
WAYS = ("done", "fail", "form", "reject", "fail+form", "form+reject")
"""What is said of one row before the handler ends."""
ENDS = ("return", "raise", "Reject 0", "Reject 2", "later")


def form(*identifiers: Any) -> dict[str, Any]:
    return {FORM: [{"itemIdentifier": identifier} for identifier in identifiers]}


@dataclass(frozen=True)
class Saying:
    """A handler: it says of each row what `ways` lists, and then ends."""

    ways: tuple[str, ...]
    end: str = "return"

    def __call__(self, batch: Batch) -> Any:
        for row, way in zip(batch.rows, self.ways, strict=True):
            if "fail" in way:
                batch.fail(row, LookupError(f"row {row['id']}"))
            if "reject" in way:
                batch.reject(row, "no address")
        if self.end == "raise":
            raise ValueError("all of it")
        if self.end == "later":
            raise RetryLater("the warehouse is down", after="2m")
        if self.end.startswith("Reject"):
            raise Reject(batch.rows[int(self.end[-1])], "no such country")
        return form(*(batch.key(row) for row, way in zip(batch.rows, self.ways, strict=True) if "form" in way))


@dataclass(frozen=True)
class Awaited:
    """The same, async."""

    handler: Any

    async def __call__(self, batch: Batch) -> Any:
        await asyncio.sleep(0)
        return self.handler(batch)


@dataclass(frozen=True)
class Unawaited:
    """The same, where an `await` was forgotten."""

    handler: Any

    def __call__(self, batch: Batch) -> Any:
        async def outer() -> Any:
            return Awaited(self.handler)(batch)

        return outer()


# --- hostile values


class Breaks(dict[str, Any]):
    """A mapping that raises whenever it is asked."""

    def __contains__(self, key: object) -> bool:
        raise LookupError("ask nobody")

    __getitem__ = __iter__ = __len__ = __contains__  # type: ignore[assignment]


class BreaksLate(dict[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise LookupError("ask nobody")


class BreaksAsList(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        raise LookupError("ask nobody")


class Text(str):
    """A text that cannot be compared, hashed or shown."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise LookupError("ask nobody")

    def __hash__(self) -> int:
        raise LookupError("ask nobody")

    def __str__(self) -> str:
        raise LookupError("ask nobody")

    __repr__ = __str__


class LiesOfItsClass:
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return str


class OfNoClass(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise ValueError("it has none")


class Silent(Exception):
    def __str__(self) -> str:
        raise SystemExit("not a word")


class _Renamed(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise LookupError("call it nothing")


class Nameless(Exception, metaclass=_Renamed):
    """Its class does not say how it is called."""


class OfItsProcess(Exception):
    """It cannot be sent anywhere."""

    def __reduce__(self) -> Any:
        raise LookupError("it stays here")


class RejectOfNoRow(Reject):
    def __init__(self) -> None:
        Exception.__init__(self, "which one")


class LaterAtAnyTime(RetryLater):
    def __init__(self, after: Any) -> None:
        Exception.__init__(self, "down")
        self.after = after


def malformed(batch: Batch, name: str) -> Any:
    """What is no form, though it looks like one."""
    key = batch.key(batch.rows[0])
    made: dict[str, Callable[[], Any]] = {
        "None": lambda: {FORM: None},
        "text": lambda: {FORM: key},
        "mapping": lambda: {FORM: {"itemIdentifier": key}},
        "set": lambda: {FORM: {key}},
        "generator": lambda: {FORM: ({"itemIdentifier": key} for _ in range(1))},
        "keys alone": lambda: {FORM: [key]},
        "other name": lambda: {FORM: [{"ItemIdentifier": key}]},
        "no name": lambda: {FORM: [{}]},
        "one of two": lambda: {FORM: [{"itemIdentifier": key}, None]},
        "identifier None": lambda: form(None),
        "identifier int": lambda: form(1),
        "identifier bytes": lambda: form(key.encode()),
        "identifier list": lambda: form([key]),
        "identifier row": lambda: form(batch.rows[0]),
        "identifier liar": lambda: form(LiesOfItsClass()),
        "empty": lambda: form(""),
        "unknown": lambda: form(key, "orders/77\x1b[2J/x"),
        "of a million": lambda: form(key, "z" * 1_000_000),
        "snake case": lambda: {"status": 1, "batch_item_failures": [{"itemIdentifier": key}]},
        "one failure": lambda: {"BatchItemFailure": ({"itemIdentifier": key},)},
        "Reject": lambda: Reject(batch.rows[0], "no address"),
        "RetryLater": lambda: RetryLater("down"),
        "breaks": lambda: Breaks({FORM: []}),
        "breaks late": lambda: BreaksLate({FORM: []}),
        "breaks as list": lambda: {FORM: BreaksAsList([{}])},
        "breaks inside": lambda: {FORM: [Breaks({"itemIdentifier": key})]},
    }
    return made[name]()


def well_formed(batch: Batch, name: str) -> Any:
    """Unusual forms, which name the first row."""
    key = batch.key(batch.rows[0])
    made: dict[str, Callable[[], Any]] = {
        "twice": lambda: form(key, key, key),
        "a hundred thousand times": lambda: form(*[key] * 100_000),
        "tuple": lambda: {FORM: ({"itemIdentifier": key},)},
        "with more": lambda: {FORM: [{"itemIdentifier": key, "why": object()}], "statusCode": 200},
        "UserDict": lambda: UserDict({FORM: [UserDict({"itemIdentifier": key})]}),
        "proxy": lambda: MappingProxyType({FORM: [MappingProxyType({"itemIdentifier": key})]}),
        "odd text": lambda: form(Text(key)),
    }
    return made[name]()


def value(name: str) -> Any:
    """What handlers return that names no row."""
    return {
        "None": None,
        "number": 3,
        "text": FORM,
        "list": [{"itemIdentifier": "x"}],
        "mapping": {"rows": 3},
        "counts": defaultdict(int),
        "a count of failures": {"batch_item_failures": 0},
        "empty form": {FORM: []},
        "empty tuple": {FORM: ()},
        "object": object(),
    }[name]


VALUES = (
    *("None", "number", "text", "list", "mapping", "counts", "a count of failures", "empty form", "empty tuple"),
    "object",
)
MALFORMED = (
    *("None", "text", "mapping", "set", "generator", "keys alone", "other name", "no name", "one of two"),
    *("identifier None", "identifier int", "identifier bytes", "identifier list", "identifier row", "identifier liar"),
    *("empty", "unknown", "of a million", "snake case", "one failure", "Reject", "RetryLater"),
)
BREAKING = ("breaks", "breaks late", "breaks as list", "breaks inside")
WELL_FORMED = ("twice", "a hundred thousand times", "tuple", "with more", "UserDict", "proxy", "odd text")


@dataclass(frozen=True)
class Returns:
    """A handler that returns what one of the functions above makes by this name."""

    kind: str
    name: str

    def __call__(self, batch: Batch) -> Any:
        if self.kind == "value":
            return value(self.name)
        return malformed(batch, self.name) if self.kind == "malformed" else well_formed(batch, self.name)


@dataclass(frozen=True)
class Raises:
    """A handler that raises what is unusual."""

    name: str

    def __call__(self, batch: Batch) -> None:
        if self.name == "a copy":
            raise Reject(dict(batch.rows[0]), "no address")
        if self.name == "no row":
            raise RejectOfNoRow
        raise LaterAtAnyTime({"garbage": object(), "text": "2m", "years": timedelta(days=3000)}[self.name])


@dataclass(frozen=True)
class EndsEarly:
    """A handler that names a row, and then ends its process, or never ends."""

    how: str

    def __call__(self, batch: Batch) -> None:
        batch.fail(batch.rows[0], "named")
        if self.how == "dies":
            os._exit(3)
        while True:
            threading.Event().wait()


@dataclass(frozen=True)
class Fails:
    """A handler that gives odd errors for its rows."""

    error_of: str

    def __call__(self, batch: Batch) -> None:
        for row in batch.rows:
            batch.fail(
                row,
                {
                    "of no class": OfNoClass("x"),
                    "silent": Silent(),
                    "nameless": Nameless("x"),
                    "of its process": OfItsProcess(object()),
                    "text": Text("x"),
                    "lines": ValueError("first\nsecond"),
                    "secret": ValueError("pwd=hunter2 " + "y" * 1_000_000),
                    "control": "\x1b[2Jgone",
                    "nothing": "",
                    "no error": None,
                }[self.error_of],  # type: ignore[arg-type]
            )


# --- named too late

_kept: list[Batch] = []


@dataclass(frozen=True)
class NamesLate:
    """A handler that keeps its batch, however its call ends. Its next call names a row of that one, as a thread of the
    handler may do that is late, and fails its own second row with the error that this gives.

    Attributes:
        method: `fail` or `reject`. end: as in `ENDS`.
    """

    method: str
    end: str = "return"

    def __call__(self, batch: Batch) -> Any:
        if not _kept:
            _kept.append(batch)
            return Saying(("done",) * len(batch), self.end)(batch)
        late = _kept.pop()
        try:
            getattr(late, self.method)(late.rows[0], "late")
        except RuntimeError as error:
            batch.fail(batch.rows[1], error)
        return None
