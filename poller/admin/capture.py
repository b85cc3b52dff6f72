"""`poller capture` from a poller's configuration to its database: plan, install, remove and prove a change table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from poller.admin.own_connection import connected, url_of
from poller.databases import capture as common
from poller.databases import tokens
from poller.databases.capture import Busy, CapturePlan, CaptureRefusal, CaptureRequest, Removed
from poller.databases.kinds import KINDS
from poller.databases.urls import family_of, sqlite_path
from poller.model.change_chain import Chain
from poller.sources.connection import read_url

if TYPE_CHECKING:
    from poller.config import PollerConfig
    from poller.ports import Runtime

_T = TypeVar("_T")


class TableCapture:
    """Capture of the table that a poller reads.

    Args:
        name: the poller's. config: its options. url_env: the setting that has the URL of a user who may create
            triggers; None: the source's `capture_url_env`, or its own URL. old, excluded, accepted, always: as
            `databases.capture.Wanted`.
    Raises: ConfigError, for a setting that is missing; Refusal, for a source that is not a table, or in a database
        without capture.
    """

    def __init__(
        self,
        name: str,
        config: PollerConfig,
        *,
        runtime: Runtime,
        environ: Mapping[str, str],
        url_env: str | None = None,
        old: bool | None = None,
        excluded: tuple[str, ...] | None = None,
        accepted: tuple[str, ...] = (),
        always: bool = False,
    ) -> None:
        source = config.source
        if source.table is None:
            raise CaptureRefusal(
                f"{name}: its rows come from a query, and only a table has triggers.", next_step="Name a table."
            )
        reader = read_url(source.url.get_secret_value())
        key = "--url-env" if url_env is not None else "capture_url_env"
        url_env = url_env or source.capture_url_env
        self._url = reader if url_env is None else url_of(url_env, environ, "create triggers", key=key)
        family = family_of(self._url)
        kind = KINDS.get(family)
        if kind is None or not kind.capture:
            able = ", ".join(sorted(one for one, known in KINDS.items() if known.capture))
            raise CaptureRefusal(
                f"{source.table}: poller captures no changes in {family} databases.",
                next_step=f"It does in: {able}. Elsewhere follow a column that grows with every change.",
            )
        if kind.is_file and (path := sqlite_path(self._url)) != ":memory:" and not Path(path).exists():
            raise CaptureRefusal(
                f"{source.table}: there is no such file: {path}.", next_step="Look at `url` of the source."
            )
        self._kind = getattr(import_module(f"poller.databases.{family}.capture"), kind.capture)
        self._identity = tokens.chosen(source.identity, environ, key="identity") if url_env is None else None
        self._runtime = runtime
        self._error_text = config.error_text
        other = reader.username if reader.username != self._url.username else None
        self._wanted = CaptureRequest(name, source.schema_name, source.table, old, excluded, accepted, always, other)

    def plan(self) -> CapturePlan:
        """What installing would do; changes nothing. Raises: Refusal, SourceError."""
        with self._open() as capture:
            return capture.plan()

    def install(self) -> CapturePlan:
        """Install, or install again after the table was changed. Raises: Refusal, SourceError; nothing was installed
        then."""
        return self._tried("installed", lambda capture: capture.install())

    def remove(self, *, changes: bool) -> Removed:
        """Drop the triggers; with `changes` also the change table and what it holds. Raises: as `install`."""
        return self._tried("removed", lambda capture: capture.remove(changes=changes))

    def verify(self, most: int) -> Chain:
        """The proof of the newest `most` changes against the table. Raises: Refusal, SourceError."""
        with self._open() as capture, capture.record(most) as record:
            chain = Chain(record.key, since=record.since, replaces=record.replaces)
            for change in record.rows_of_changes:
                chain.take(*change)
            chain.finish(record.rows)
        return chain

    def _tried(self, done: str, change: Callable[[common.Capture], _T]) -> _T:
        """What `change` returns once no transaction holds the table. Raises: Refusal, SourceError."""
        with self._open() as capture:
            for attempt in range(common.TRIES):
                if attempt:
                    self._runtime.sleep(self._runtime.jitter(0.5, 1.5) * common.PAUSE_SECONDS)
                with suppress(Busy):
                    return change(capture)
        raise CaptureRefusal(
            f"{self._wanted.table}: transactions that are open held the table, {common.TRIES} times for "
            f"at most {common.LOCK_SECONDS} s each; nothing was {done}.",
            next_step="Run the command again when they have ended.",
        )

    @contextmanager
    def _open(self) -> Iterator[common.Capture]:
        """A connection of its own. Raises: SourceError, for what the driver raises."""
        url, table = self._url, self._wanted.table
        with connected(url, self._identity, table, error_text=self._error_text, refused=CaptureRefusal) as connection:
            made: common.Capture = self._kind(connection, self._wanted)
            yield made
