"""Backfills by their documents: which document is one, of which poller, and what stands in it.

A backfill's document says so from its first write, in its checkpoint's metadata. One that an earlier version began is
known by its source: a poller's, with `from` and `to` beside it.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from poller.errors import PollerError, StateCorrupt
from poller.lease.state_file import Copy, StateFile
from poller.model.cursor import Cursor, KeyValue
from poller.model.document import State
from poller.model.fingerprint import SourceDescription, differences
from poller.model.stamps import stamp
from poller.model.timing import Timing
from poller_cli.ranges import Range, RangeSource
from poller_cli.session import DEFAULT_CONFIG

if TYPE_CHECKING:
    from poller.app import App, Poller
    from poller.sources import SqlSource

ORIGIN = "backfill"
"""The key in a checkpoint's metadata that says whose range it is, who began it and when."""
FINISHED = "backfill_finished_at"
"""The key that says that every row was delivered, and when."""
LONGEST_NAME = 63
MOST_READ = 500
"""So many documents are looked at in search of backfills; each costs a request."""
_PART = re.compile(r"-(\d{1,2})of(\d{1,2})$")
_READING = Timing(ttl=60.0, heartbeat=15.0)
"""Only its time limits count: whether a lease is live is judged by the poller's own numbers."""


def part_suffix(part: int, count: int) -> str:
    """What a part's name ends with."""
    return f"-{part}of{count}"


def base(name: str) -> str:
    """A backfill's name, without the part's number."""
    return _PART.sub("", name)


def default_name(of: str, begins: str, ends: str, fingerprint: str, *, longest: int = LONGEST_NAME) -> str:
    """A name that holds the range and the source, so that each has one of its own; at most `longest` letters."""
    tail = "-backfill-" + hashlib.sha256(f"{begins}\n{ends}\n{fingerprint}".encode()).hexdigest()[:8]
    return of[: longest - len(tail)] + tail


def origin(of: str, whole: Range, *, by: str, at: datetime, cuts: Sequence[Cursor] = ()) -> dict[str, Any]:
    """What a new document's metadata says of where it comes from.

    Args:
        whole: the range before it was cut into parts. cuts: where, if between rows: they come and go, and whoever
            goes on with it cuts it at the same places.
    """
    told = {"of": of, "from": whole.low.value, "to": whole.high.value, "by": by, "at": stamp(at)}
    return {ORIGIN: told | ({"cuts": [one.model_dump(mode="json") for one in cuts]} if cuts else {})}


def free_name(app: App, of: str, *, longest: int) -> str:
    """For a range once more: the first name of its kind that nothing has. Raises: StoreUnavailable, StoreDenied."""
    prefix = f"state/{app.config.app_name}/"
    names = {one.removeprefix(prefix).removesuffix(".json") for one in app.store.names(prefix)}
    taken = names | {base(name) for name in names} | set(app.config.pollers)
    number = 1
    while True:
        tail = "-again" if number == 1 else f"-again-{number}"
        name = of[: longest - len(tail)] + tail
        if name not in taken:
            return name
        number += 1


@dataclass(frozen=True, slots=True)
class Document:
    """A backfill's document, or that of one of its parts.

    Attributes:
        of: the configured poller that it belongs to, None where none does. told: the poller's name when it was begun.
        begins, ends: its stretch; begins_key, ends_key: the keys that it is cut by, where it is.
        whole: the range of all parts, where it is known.
        by, at: who began it, and when, where that was written down. cuts: of all parts, where they are cut by keys.
    """

    name: str
    location: str
    copy: Copy
    begins: str
    ends: str
    of: str | None = None
    told: str | None = None
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
        """Whether every row of it was delivered."""
        return FINISHED in self.state.checkpoint.metadata

    @property
    def finished_at(self) -> datetime | None:
        """When that was; None while it was not."""
        return _moment(self.state.checkpoint.metadata.get(FINISHED))

    @property
    def base(self) -> str:
        """The backfill's name, without the part's number."""
        return base(self.name)


def _moment(told: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(told)
    except (TypeError, ValueError):
        return None


def _text(told: dict[str, Any], key: str) -> str | None:
    value = told.get(key)
    return value if isinstance(value, str) else None


def _key(told: Any) -> dict[str, KeyValue] | None:
    whole = isinstance(told, dict) and all(isinstance(one, int | str) for one in told.values())
    return told if whole else None


def _cuts(told: Any) -> tuple[Cursor, ...]:
    try:
        return tuple(Cursor.model_validate(one) for one in told or ())
    except (TypeError, ValueError):
        return ()


@dataclass(frozen=True, slots=True)
class Listing:
    """The backfills that are not finished.

    Attributes:
        unread: so many documents were not looked at. unreadable: why others told nothing whose names are a backfill's.
    """

    documents: list[Document]
    unread: int = 0
    unreadable: list[str] = field(default_factory=list)


class Backfills:
    """The backfills of an app. Keeps what it read, so that a later look costs less."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._files: dict[str, StateFile] = {}
        self._done: set[str] = set()
        """Documents that need not be read again: finished, or no backfill's."""
        self._sources: dict[str, SourceDescription] = {}

    def read(self, name: str) -> Document | None:
        """The document of that name, None where there is none or it is no backfill's; one request.

        Raises: StateCorrupt, StoreUnavailable, StoreDenied.
        """
        app = self._app
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = StateFile(
                app.store, app_name=app.config.app_name, poller_name=name, runtime=app.runtime, timing=_READING
            )
        copy = file.read()
        return None if copy is None else self._recognised(name, file.location, copy)

    def named(self, name: str) -> list[Document]:
        """The document of that name, or those of the parts of the backfill of that name; none where there is neither.

        Raises: as `read`.
        """
        alone = self.read(name)
        if alone is not None:
            return [alone]
        start = f"state/{self._app.config.app_name}/{name}"
        endings = {one.removeprefix(start).removesuffix(".json") for one in self._app.store.names(f"{start}-")}
        parts = sorted((int(m[2]), int(m[1])) for m in map(_PART.fullmatch, endings) if m)
        found = [self.read(name + part_suffix(part, count)) for count, part in parts]
        return [one for one in found if one is not None]

    def unfinished(self, of: Collection[str]) -> Listing:
        """Those of these pollers: one request that lists names, and one for each document that may be a backfill's.

        Raises: StoreUnavailable, StoreDenied.
        """
        prefix = f"state/{self._app.config.app_name}/"
        names = [name.removeprefix(prefix).removesuffix(".json") for name in self._app.store.names(prefix)]
        open_ = [name for name in names if name not in self._app.config.pollers and name not in self._done]
        likely = tuple(f"{one}-backfill-" for one in of)
        open_.sort(key=lambda name: not name.startswith(likely))
        chosen = open_[:MOST_READ]
        if not chosen:
            return Listing([])
        with ThreadPoolExecutor(max_workers=min(8, len(chosen))) as pool:
            looked = list(pool.map(partial(self._look, likely=likely), chosen))
        found = sorted((one for one in looked if isinstance(one, Document) and one.of in of), key=_place)
        unreadable = [one.message for one in looked if isinstance(one, StateCorrupt)]
        return Listing(found, len(open_) - len(chosen), unreadable)

    def poller(self, document: Document) -> Poller:
        """A poller that reads its rows, with the options of the one it belongs to; `of` must be known."""
        return self._app.wire(document.name, self._app.config.pollers[document.of or ""], self.source(document))

    def source(self, document: Document) -> RangeSource:
        """Its rows, read through the connection of the poller it belongs to; `of` must be known."""
        of = document.of or ""
        kind = self._described(of).cursor_kind
        ends = ((document.begins, document.begins_key), (document.ends, document.ends_key))
        low, high = (Cursor.model_validate({"kind": kind, "value": value, "tiebreaker": key}) for value, key in ends)
        return RangeSource(cast("SqlSource", self._app.poller(of).source), Range(low, high))

    def command(self, document: Document, config: Path) -> str | None:
        """The command that goes on with it, to copy; None where the range of all its parts is not known."""
        if document.of is None or document.whole is None:
            return None
        begins, ends = document.whole
        words = ["poller", *([] if config == DEFAULT_CONFIG else ["-c", str(config)]), "backfill", document.of]
        words += ["--from", begins, "--to", ends]
        longest = LONGEST_NAME - len(part_suffix(32, 32))
        fingerprint = self._described(document.of).fingerprint()
        if document.base != default_name(document.of, begins, ends, fingerprint, longest=longest):
            words += ["--as", document.base]
        return shlex.join(words)

    def _look(self, name: str, likely: tuple[str, ...]) -> Document | StateCorrupt | None:
        """One of a listing. A document that cannot be read is told of only where its name is a backfill's."""
        try:
            found = self.read(name)
        except StateCorrupt as error:
            if name.startswith(likely):
                return error
            found = None
        if found is None or found.finished:
            self._done.add(name)
            self._files.pop(name, None)
            return None
        return found

    def _recognised(self, name: str, location: str, copy: Copy) -> Document | None:
        source = copy.state.source or {}
        begins, ends = _text(source, "from"), _text(source, "to")
        if begins is None or ends is None:
            return None
        kept = copy.state.checkpoint.metadata.get(ORIGIN)
        told: dict[str, Any] = kept if isinstance(kept, dict) else {}
        first, last = _text(told, "from"), _text(told, "to")
        whole = (first, last) if first is not None and last is not None else None
        if whole is None and _PART.search(name) is None:
            whole = (begins, ends)
        of = _text(told, "of")
        return Document(
            name=name,
            location=location,
            copy=copy,
            begins=begins,
            ends=ends,
            of=of if of in self._app.config.pollers else self._by_source(name, source),
            told=of,
            whole=whole,
            by=_text(told, "by"),
            at=_moment(told.get("at")),
            begins_key=_key(source.get("from_key")),
            ends_key=_key(source.get("to_key")),
            cuts=_cuts(told.get("cuts")),
        )

    def _by_source(self, name: str, source: dict[str, Any]) -> str | None:
        """The configured poller of that source; of several the one that the name begins with, else the first."""
        stored = {key: value for key, value in source.items() if key not in ("from", "to", "from_key", "to_key")}
        same = []
        for one in self._app.config.pollers:
            try:
                if not differences(stored, self._described(one)):
                    same.append(one)
            except PollerError:
                continue  # a source that cannot be made is told where it is asked for
        same.sort(key=lambda one: (not name.startswith(f"{one}-backfill-"), -len(one)))
        return same[0] if same else None

    def _described(self, of: str) -> SourceDescription:
        if of not in self._sources:
            self._sources[of] = self._app.poller(of).source.describe()
        return self._sources[of]


def _place(document: Document) -> tuple[str, str, int]:
    part = _PART.search(document.name)
    return document.of or "", document.base, int(part[1]) if part else 0
