"""The backfills of an application: found by name or as those that are not finished, and the pollers that read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from poller.admin.wired import WiredApp
from poller.backfill.claims import claimed
from poller.backfill.documents import Document, default_name, recognised
from poller.backfill.ranges import Range, RangeSource
from poller.backfill.wired import LivePoller, table_of
from poller.config.types import is_name
from poller.errors import ConfigError, PollerError, StateCorrupt
from poller.lease.state_file import StateFile
from poller.model.cursor import Cursor
from poller.model.fingerprint import SourceDescription, differences
from poller.model.part_names import base, part_of, part_suffix
from poller.model.timing import Timing
from poller.ports import StateStore

MOST_READ = 500
"""So many documents are looked at in search of backfills; each costs a request."""
_READING = Timing(ttl=60.0, heartbeat=15.0)
"""Only its time limits count: whether a lease is live is judged by the poller's own numbers."""


@dataclass(frozen=True, slots=True)
class UnfinishedBackfills:
    """The backfills that are not finished.

    Attributes:
        unread: so many documents were not looked at. unreadable: why others, with the name of a backfill, could not be
            read.
    """

    documents: list[Document]
    unread: int = 0
    unreadable: list[str] = field(default_factory=list)


class Backfills:
    """The backfills of an application. Keeps what it read, so that a later look costs less."""

    def __init__(self, app: WiredApp[LivePoller]) -> None:
        self._app = app
        self._files: dict[str, StateFile] = {}
        self._done: set[str] = set()
        """Documents that need not be read again: finished, or no backfill's."""
        self._sources: dict[str, SourceDescription] = {}

    @property
    def pollers(self) -> Mapping[str, LivePoller]:
        """The configured pollers of the application, by name."""
        return self._app.pollers

    def read(self, name: str) -> Document | None:
        """The document of that name, None if there is none or it is not a backfill's; one request.

        Raises: StateCorrupt, StoreUnavailable, StoreDenied.
        """
        app = self._app
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = StateFile(
                app.store, app_name=app.app_name, poller_name=name, runtime=app.runtime, timing=_READING
            )
        copy = file.read()
        found = None if copy is None else recognised(name, file.location, copy)
        return None if found is None else replace(found, of=self._owner(found))

    def named(self, name: str) -> list[Document]:
        """The document of that name, or those of the parts of the backfill of that name; none where there is neither.

        Raises: ConfigError, if it belongs to no configured poller; StateCorrupt, StoreUnavailable, StoreDenied.
        """
        app = self._app
        alone = self.read(name) if is_name(name) else None
        parts = _parts(_documents(app.store, app.app_name, f"{name}-"), name) if is_name(name) and not alone else []
        found = [alone] if alone else [one for one in map(self.read, parts) if one is not None]
        lost = next((one for one in found if one.of is None), None)
        if lost is not None:
            whose = f" of {lost.begun_for!r}" if lost.begun_for else ""
            raise ConfigError(
                f"{name} is a backfill{whose}, and {app.path} has no such poller.",
                key=f"pollers.{lost.begun_for or name}",
                file=str(app.path),
                next_step="Use the configuration that it was begun with: -c FILE.",
            )
        return found

    def unfinished(self, of: Collection[str]) -> UnfinishedBackfills:
        """Those of these pollers: one request that lists names, and one for each document that may be a backfill's.

        Raises: StoreUnavailable, StoreDenied.
        """
        names = _documents(self._app.store, self._app.app_name, "")
        open_ = [name for name in names if name not in self._app.pollers and name not in self._done]
        likely = tuple(f"{one}-backfill-" for one in of)
        open_.sort(key=lambda name: not name.startswith(likely))
        chosen = open_[:MOST_READ]
        if not chosen:
            return UnfinishedBackfills([])
        with ThreadPoolExecutor(max_workers=min(8, len(chosen))) as pool:
            looked = list(pool.map(partial(self._look, likely=likely), chosen))
        found = sorted((one for one in looked if isinstance(one, Document) and one.of in of), key=_place)
        unreadable = [one.message for one in looked if isinstance(one, StateCorrupt)]
        return UnfinishedBackfills(found, len(open_) - len(chosen), unreadable)

    def live(self, document: Document) -> LivePoller:
        """The poller that it belongs to; `of` must be known. Raises: ConfigError, for a source that cannot be made."""
        return self.pollers[document.of or ""]

    def poller(self, document: Document) -> LivePoller:
        """A poller that reads its rows, with the options of the one it belongs to; `of` must be known."""
        return self.live(document).beside(document.name, self.source(document))

    def source(self, document: Document, *, own: bool = False) -> RangeSource:
        """Its rows, read through the connection of the poller it belongs to, or, for another thread, through its `own`,
        which the caller closes; `of` must be known."""
        of = document.of or ""
        kind = self._described(of).cursor_kind
        ends = ((document.begins, document.begins_key), (document.ends, document.ends_key))
        low, high = (Cursor.model_validate({"kind": kind, "value": value, "tiebreaker": key}) for value, key in ends)
        table = table_of(self.live(document))
        return RangeSource(table.another() if own else table, Range(low, high))

    def location(self, name: str) -> str:
        """Where the documents of its parts are kept, for people."""
        return self._app.store.locate(f"state/{self._app.app_name}/{name}-*.json")

    def command(self, document: Document) -> list[str] | None:
        """The words, after the program's name, of the command that goes on with it; None if the range of all its
        parts is not known."""
        if document.of is None or document.whole is None:
            return None
        begins, ends = document.whole
        fingerprint = self._described(document.of).as_configured().fingerprint()
        named = [] if document.base == default_name(document.of, begins, ends, fingerprint) else ["--as", document.base]
        return ["backfill", document.of, "--from", begins, "--to", ends, *named]

    def _look(self, name: str, likely: tuple[str, ...]) -> Document | StateCorrupt | None:
        """One of a listing. A document that cannot be read is reported only where its name is a backfill's."""
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

    def _owner(self, document: Document) -> str | None:
        """The configured poller that it was begun for; else one of that source: of several the one that the name begins
        with, else the first."""
        if document.begun_for in self._app.pollers:
            return document.begun_for
        source: dict[str, Any] = document.state.source or {}
        stored = {key: value for key, value in source.items() if key not in ("from", "to", "from_key", "to_key")}
        same = []
        for one in self._app.pollers:
            try:
                if not differences(stored, self._described(one)):
                    same.append(one)
            except PollerError:
                continue  # a source that cannot be made is reported where it is asked for
        same.sort(key=lambda one: (not document.name.startswith(f"{one}-backfill-"), -len(one)))
        return same[0] if same else None

    def _described(self, of: str) -> SourceDescription:
        if of not in self._sources:
            self._sources[of] = self._app.pollers[of].source.describe()
        return self._sources[of]


def begun_with(name: str, store: StateStore, app_name: str) -> int | None:
    """In how many parts the backfill of that name was begun; None if it was not. Raises: StateCorrupt,
    StoreUnavailable, StoreDenied."""
    found = list(_documents(store, app_name, name))
    for part in map(part_of, _parts(found, name)):
        return part and part[1]
    return 1 if name in found else claimed(name, store, app_name)


def _documents(store: StateStore, app_name: str, beginning: str) -> Iterator[str]:
    """The names that begin so and have a state document."""
    prefix = f"state/{app_name}/"
    return (name.removeprefix(prefix).removesuffix(".json") for name in store.names(prefix + beginning))


def _parts(names: Iterable[str], of: str) -> list[str]:
    """Those of the parts of one backfill, in order."""
    places = sorted((place[1], place[0]) for one in names if base(one) == of and (place := part_of(one)))
    return [of + part_suffix(part, count) for count, part in places]


def _place(document: Document) -> tuple[str, str, int]:
    return document.of or "", document.base, (part_of(document.name) or (0, 0))[0]
