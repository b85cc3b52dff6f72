"""`poller prune` from a poller's configuration to its table: who reads it, how far each got, what may be deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poller.admin.own_connection import connected, url_of
from poller.admin.refusals import Refused, WrongArgument
from poller.config import PruneOptions
from poller.databases import tokens
from poller.databases.kinds import KINDS
from poller.databases.pruning import Deletable, PrunedTable, Pruning
from poller.databases.urls import family_of, identify, sqlite_path
from poller.errors import PollerError, StateCorrupt
from poller.model.document import State, decode
from poller.model.part_names import FINISHED
from poller.model.pruning import TableReader, limit_of, reader_of
from poller.ports import Found
from poller.sources.connection import read_url

if TYPE_CHECKING:
    from poller.config import AppConfig, PollerConfig
    from poller.model.fingerprint import SourceDescription
    from poller.ports import Event, Runtime, StateStore

USUAL_AGE = timedelta(days=7)
"""How old a change must be, if neither the command nor `prune` in the configuration says it."""
LOOKED_EVERY = 10.0
"""Seconds after which the readers are looked at again while rows are deleted."""
_PREFIX = "state/"


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What pruning would delete.

    Attributes:
        table: for people. captured: True if it is a change table, False if it is the poller's own table, an outbox.
        readers: all pollers and backfills that read it, the one that is the farthest behind first. rows: that may be
            deleted now. age: how old they are at least, None: any age. pruned_through: the last change that was pruned
            before, 0 if none was. bytes: of the table, with its indexes; None if the database does not say.
    """

    table: str
    captured: bool
    readers: tuple[TableReader, ...]
    rows: int
    age: timedelta | None
    pruned_through: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class PrunedRows:
    """What was deleted.

    Attributes:
        rows, through: how many rows, and the last one's number; 0 and None if there was nothing to delete. bytes: of
            the table afterwards, with its indexes; None if the database does not say.
    """

    rows: int
    through: int | None
    bytes: int | None


class TablePrune:
    """Prunes the table that a poller reads.

    Args:
        name: the poller's. config: of the whole file. source: what the poller's source says of itself: its table is the
            change table, if the source is captured.
        url_env: the setting that has the URL of a user who may delete; None: `prune.url_env`, `capture_url_env` of the
            source, or its own URL. age: how old a change must be; None: `prune.older_than`, or 7 days. outbox: the
            poller's own table may be pruned; so it may if `prune.outbox` is true.
    Raises: ConfigError, for a setting that is missing; Refused, for a source whose rows cannot be pruned.
    """

    def __init__(
        self,
        name: str,
        config: AppConfig,
        source: SourceDescription,
        *,
        store: StateStore,
        runtime: Runtime,
        environ: Mapping[str, str],
        url_env: str | None = None,
        age: timedelta | None = None,
        outbox: bool = False,
    ) -> None:
        own: PollerConfig = config.pollers[name]
        self._name = f"{config.app_name}/{name}"
        self._config, self._own, self._source = config, own, source
        self._options = own.prune or PruneOptions()
        self._store, self._runtime, self._outbox = store, runtime, outbox or self._options.outbox
        self._age = age
        self._check()
        named = {
            "--url-env": url_env,
            "prune.url_env": self._options.url_env,
            "capture_url_env": own.source.capture_url_env,
        }
        key, setting = next(((key, one) for key, one in named.items() if one is not None), ("", None))
        if setting is None:
            self._url = read_url(own.source.url.get_secret_value())
        else:
            self._url = url_of(setting, environ, "delete rows of the table", key=key)
        self._identity = tokens.chosen(own.source.identity, environ, key="identity") if setting is None else None
        family = family_of(self._url)
        self._rules = import_module(f"poller.databases.{family}.capture").PRUNING
        if KINDS[family].is_file and (path := sqlite_path(self._url)) != ":memory:" and not Path(path).exists():
            raise Refused(f"{name}: there is no such file: {path}.", next_step="Look at `url` of the source.")
        self._table = PrunedTable(source.schema_name, source.table or "", source.cursor_column)

    def _check(self) -> None:
        """Raises: Refused, for a source whose rows cannot be pruned."""
        source, family = self._source, self._source.database.dialect
        kind = KINDS.get(family)
        if kind is None or not kind.capture:
            able = ", ".join(sorted(one for one, known in KINDS.items() if known.capture))
            raise Refused(f"{self._name}: poller prunes no {family} databases.", next_step=f"It does in: {able}.")
        if source.table is None:
            raise Refused(f"{self._name}: its rows come from a query, not from one table.", next_step="Name a table.")
        if source.cursor_kind != "integer+pk":
            raise Refused(
                f"{self._name}: {source.table} is followed by {source.cursor_column} ({source.cursor_kind}), and only "
                "tables that are followed by a number can be pruned.",
                next_step='Follow a column that the database numbers: cursor_kind = "integer+pk".',
            )
        if source.filter is not None:
            raise Refused(
                f"{self._name}: it has a filter, so rows that it left out are delivered by no reader.",
                next_step="Prune by a poller without a filter.",
            )

    def plan(self, *, overdue: timedelta = timedelta(0), rights: bool = False) -> PrunePlan:
        """What would be deleted now; changes nothing.

        Args:
            overdue: count only changes that are older by so much more. rights: see that this user may prune.
        Raises: Refused, if no reader is found, one cannot be read, or the table may not be pruned; SourceError, and
        what the store raises.
        """
        readers = self._readers()
        with self._open() as pruning:
            self._check_kind(pruning)
            if rights:
                pruning.check_rights()
            what = self._deletable(readers, pruning)
            if what is not None and what.age is not None:
                what = replace(what, age=what.age + overdue)
            return PrunePlan(
                table=str(self._table),
                captured=pruning.captured,
                readers=tuple(sorted(readers, key=lambda one: (one.done is not None, one.done or 0, one.name))),
                rows=0 if what is None else pruning.count(what),
                age=self._age_of(pruning),
                pruned_through=pruning.pruned_through,
                bytes=pruning.bytes(),
            )

    @property
    def table(self) -> str:
        """For people."""
        return str(self._table)

    def bytes(self) -> int | None:
        """The size of the table with its indexes; None if the database does not say. Raises: Refused, SourceError."""
        with self._open() as pruning:
            return pruning.bytes()

    def run(self, stop: Event | None = None) -> PrunedRows:
        """Delete what may be deleted, chunk by chunk, with a pause as long as each chunk took. After `stop` is set no
        further chunk is begun. Raises: as `plan`; what was deleted until then stays deleted."""
        stop = stop or self._runtime.event()
        deleted, last, looked = 0, None, None
        what: Deletable | None = None
        with self._open() as pruning:
            self._check_kind(pruning)
            while True:
                began = self._runtime.monotonic()
                if looked is None or began - looked >= LOOKED_EVERY:
                    what, looked = self._deletable(self._readers(), pruning), began
                chunk = None if what is None else pruning.delete(what, last)
                if chunk is not None:
                    deleted, last = deleted + chunk.rows, chunk.last
                if chunk is None or not chunk.full or stop.wait(self._runtime.monotonic() - began):
                    return PrunedRows(deleted, last, pruning.bytes())

    def _check_kind(self, pruning: Pruning) -> None:
        """Raises: Refused."""
        if pruning.captured:
            return
        if not self._outbox:
            raise Refused(
                f"{self._table} is not a change table of poller, and its own rows would be deleted.",
                next_step="If it is an outbox, whose rows are needed by its readers alone: --outbox, or "
                f"outbox = true in [pollers.{self._name.partition('/')[2]}.prune].",
            )
        if self._age is not None:
            raise WrongArgument(
                f"{self._table}: how old its rows are is not known, so --older-than cannot be kept.",
                next_step="Leave --older-than out: rows that every reader is done with are deleted.",
            )

    def _age_of(self, pruning: Pruning) -> timedelta | None:
        if not pruning.captured or self._age is not None:
            return self._age
        return self._options.older_than or USUAL_AGE

    def _deletable(self, readers: list[TableReader], pruning: Pruning) -> Deletable | None:
        limit = limit_of(readers).done
        if limit is None:
            return None
        kept = frozenset(number for one in readers for number in one.waiting)
        return Deletable(limit, kept, self._age_of(pruning))

    # --------------------------------------------------------------------------------------------------- who reads it

    def _readers(self) -> list[TableReader]:
        """All that read the table. Raises: as `plan`."""
        names = [one for one in self._store.names(_PREFIX) if one.endswith(".json")]
        with ThreadPoolExecutor(max_workers=8, thread_name_prefix="poller-prune") as pool:
            found = [one for one in pool.map(self._reader, names) if one is not None]
        found += self._named(self._options.readers, {one.name for one in found})
        if not found:
            raise Refused(
                f"{self._table}: no poller that reads it has a checkpoint in the state store, so nothing is known to "
                "be delivered.",
                next_step=f"Run {self._name.partition('/')[2]} first, or use the state store that it uses.",
            )
        self._check_all_ran({one.name for one in found})
        return found

    def _named(self, names: Collection[str], found: set[str]) -> list[TableReader]:
        """The readers that `prune.readers` names, which may know the database by another name. Raises: as `plan`."""
        readers = []
        for name in names:
            reader = None if name in found else self._reader(f"{_PREFIX}{name}.json", named=True)
            if reader is None and name not in found:
                raise Refused(
                    f"{self._table}: prune.readers names {name}, and the state store has no checkpoint of it.",
                    next_step="Correct it (application/poller), or run that poller once.",
                )
            readers += [] if reader is None else [reader]
        return readers

    def _reader(self, document: str, *, named: bool = False) -> TableReader | None:
        name = document.removeprefix(_PREFIX).removesuffix(".json")
        found = self._store.read(document)
        if not isinstance(found, Found):
            return None  # removed since it was listed
        try:
            state = decode(found.body, location=self._store.locate(document), document=document)
            if not (named or self._reads(name, state)) or FINISHED in state.checkpoint.metadata:
                return None
            begins = (state.source or {}).get("from")
            unique = self._source.pk_columns == (self._source.cursor_column,)
            return reader_of(name, state, unique=unique, begins=None if begins is None else str(begins))
        except (StateCorrupt, ValueError) as wrong:
            said = wrong.message if isinstance(wrong, PollerError) else "its cursor is not a number"
            raise Refused(
                f"{self._table}: it is not known whether {name} needs its rows: {said}",
                next_step="Repair that document, then run the command again; nothing was deleted.",
            ) from None

    def _reads(self, name: str, state: State) -> bool:
        """True if a state document is of this table, by its source. Raises: Refused, if the poller's own is of another
        source."""
        if name == self._name:
            if self._source.belongs(state.source_fingerprint, state.source):
                return True
            raise Refused(
                f"{self._table}: the checkpoint of {name} belongs to another source.",
                next_step=f"Look at it: poller status {name.partition('/')[2]}.",
            )
        said = state.source or {}
        of: Any = said.get("database")
        if said.get("table") != self._source.table or not isinstance(of, dict):
            return False
        ours = {**self._source.database.model_dump(mode="json"), "schema": self._source.schema_name}
        theirs = {**of, "schema": said.get("schema")}
        return all(None in (value, theirs.get(key)) or value == theirs.get(key) for key, value in ours.items())

    def _check_all_ran(self, found: set[str]) -> None:
        """Raises: Refused, for a configured poller of this table that has no checkpoint yet."""
        own = self._own.source
        for name, other in self._config.pollers.items():
            source = other.source
            same = (source.table, source.schema_name, getattr(source, "capture", False)) == (
                own.table,
                own.schema_name,
                getattr(own, "capture", False),
            )
            if f"{self._config.app_name}/{name}" in found or not same:
                continue
            if identify(read_url(source.url.get_secret_value())) == self._source.database:
                raise Refused(
                    f"{self._table}: {name} reads it too, and never ran: rows would be deleted that it did not see.",
                    next_step=f"Run {name} once, or take it out of the configuration.",
                )

    # -------------------------------------------------------------------------------------------------- the connection

    @contextmanager
    def _open(self) -> Iterator[Pruning]:
        """A connection of its own. Raises: SourceError, for what the driver raises."""
        url, table = self._url, str(self._table)
        with connected(url, self._identity, table, error_text=self._own.error_text, refused=Refused) as connection:
            yield Pruning(connection, self._rules, self._table)
