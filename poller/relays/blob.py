"""Rows as files in Azure Blob Storage: each row in one file and in no other (`landing` says how). Which
folder it goes into is a pure function of the row."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from poller.config.options import Text
from poller.handler.batch import Batch
from poller.model.finding import Finding, error, ok
from poller.model.row_ids import hash_of_key
from poller.relays.account import (
    AccountOptions,
    account_client,
    failure,
    looked_at,
    problem,
    sent,
)
from poller.relays.base import Relay, needs
from poller.relays.blob_formats import JsonLines, Parquet
from poller.relays.landing import Files, LandedFiles, LandingRows, Look
from poller.relays.ordering import key_value

LEDGERS = "_poller"
"""The folder of the ledgers: what reads a container as a table leaves out folders that begin so."""
_ONE_PUT = 64 * 1024 * 1024
_CONTAINER = r"[a-z0-9](?:-?[a-z0-9]){2,62}"
_TYPES = {".jsonl": "application/x-ndjson", ".gz": "application/gzip", ".parquet": "application/vnd.apache.parquet"}


_NO_CONTAINER = {"ContainerNotFound": False}
OF_POLLER = ("app", "poller")
OF_DATE = {"date": "%Y-%m-%d", "year": "%Y", "month": "%m", "day": "%d", "hour": "%H"}
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""Where a row has no date in its column: what readers of partitions take for NULL."""
_PLACE = re.compile(r"\{([^{}]*)\}")
_REST = re.compile(r"[A-Za-z0-9][\w=.-]*(?:/[A-Za-z0-9][\w=.-]*)*", re.ASCII)


class BlobSettings(AccountOptions):
    """`poller.relays:blob`: rows as files of JSON Lines or Parquet in a container of Azure Blob Storage."""

    container: str = Field(pattern=f"^{_CONTAINER}$")
    """The name of the container: 3 to 63 lower-case letters, digits and single hyphens."""

    format: Literal["jsonl", "parquet"] = "jsonl"
    """`jsonl`: a line of JSON for each row. `parquet`: needs the extra `arrow` and `format = "arrow"` in the source."""

    path: Text = "{poller}"
    """The folder of a file: `{app}`, `{poller}`, and of the row's date `{date}` (such as `2026-04-07`), `{year}`,
    `{month}`, `{day}` and `{hour}`. A batch makes a file for each folder."""

    date_column: Text | None = None
    """The column with that date, in UTC; rows without one go to the folder `__HIVE_DEFAULT_PARTITION__`."""

    compression: Literal["none", "gzip"] = "none"
    """`gzip`: JSON Lines as `.jsonl.gz`, Parquet with its columns in gzip instead of snappy."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        wrong = fault(self.path)
        if wrong is not None:
            raise problem("path", wrong)
        dated = bool(placeholders(self.path) & {*OF_DATE})
        if dated and self.date_column is None:
            raise problem("date_column", "is missing: path has a date")
        if self.date_column is not None and not dated:
            raise problem("date_column", "has no meaning: path has no date, such as {date}")
        return self


class BlobRelay(Relay[BlobSettings]):
    """Lands the rows of a batch in one file for each folder."""

    knows_changes = True

    def __init__(
        self, settings: BlobSettings, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        super().__init__(settings, environ=environ, folder=folder)
        if settings.format == "parquet":
            with needs("blob", package="pyarrow", module="pyarrow", extra="arrow"):
                import pyarrow.parquet  # noqa: F401
        connection = ""
        if settings.connection_env is not None:
            connection = self.variable("connection_env", settings.connection_env)
        self._files = _Container(settings, connection)
        self._landings: dict[str, LandedFiles] = {}

    def __call__(self, batch: Batch) -> None:
        """Raises: RetryLater, if the service is down; Fenced, if a later owner has written files; PollerError."""
        own = self.settings
        compressed = own.compression == "gzip"
        form = (
            Parquet(batch, own.columns, own.path, compressed=compressed)
            if own.format == "parquet"
            else JsonLines(batch, own.columns, compressed=compressed)
        )
        keys = [hash_of_key(key) for key in batch.keys()]  # noqa: SIM118 - not a mapping's
        folders: dict[str, list[int]] = {}
        for position, value in zip(range(len(batch)), self._dates(batch), strict=True):
            if position in form.rows:
                place = folder(own.path, app=batch.standing.app_name, poller=batch.poller_name, value=value)
                folders.setdefault(place, []).append(position)
        wanted = [LandingRows(place, tuple(at), tuple(keys[one] for one in at)) for place, at in folders.items()]
        batch.check()
        self._landing(batch).land(batch, wanted, form)

    def checkup(self) -> list[Finding]:
        """Check that the container can be reached. The right to make files shows only when one is made."""
        return looked_at(self._files.check)

    def close(self) -> None:
        """See `Relay.close`."""
        self._files.close()

    def _dates(self, batch: Batch) -> list[Any]:
        """What is in the date column of each row."""
        column = self.settings.date_column
        if column is None:
            return [None] * len(batch)
        table = batch.table if self.settings.format == "parquet" else None
        if table is not None and column in table.schema.names:
            return list(table.column(column).to_pylist())
        return [key_value({} if table is not None else row, column, key="date_column") for row in batch.rows]

    def _landing(self, batch: Batch) -> LandedFiles:
        standing = batch.standing
        name = "/".join(one for one in (LEDGERS, standing.app_name, batch.poller_name, standing.shard) if one) + ".json"
        return self._landings.setdefault(name, LandedFiles(self._files, name))


class _Container(Files):
    """`Files` in a container of Azure Blob Storage."""

    def __init__(self, settings: BlobSettings, connection: str) -> None:
        from azure.storage.blob import ContainerClient

        self._settings = settings
        self._sdk = account_client(
            settings, connection, "blob", ContainerClient, settings.container, max_single_put_size=_ONE_PUT
        )

    def place(self, name: str) -> str:
        """See `Files.place`."""
        if not name:
            return f"the container {self._settings.container}"
        return f"the blob {name} in container {self._settings.container}"

    def check(self) -> Finding:
        """See that the container is there, or may be made. Raises: as `Files`."""
        own = self._settings
        there = self._asked("", lambda: bool(self._sdk.client().get_container_properties()), otherwise=_NO_CONTAINER)
        if there:
            return ok("relay", f"the container {own.container} is there")
        if own.create:
            return ok("relay", f"the container {own.container} is not there, and is made with the first file")
        step = f"az storage container create --name {own.container}"
        return error("relay", f"The container {own.container} does not exist, and create is false.", step)

    def read(self, name: str) -> tuple[bytes, str] | None:
        """See `Files.read`."""

        def get() -> tuple[bytes, str]:
            found = self._sdk.client().get_blob_client(name).download_blob()
            return found.readall(), str(found.properties.etag)

        missing = dict.fromkeys(("BlobNotFound", "ContainerNotFound"))
        found: tuple[bytes, str] | None = self._asked(name, get, otherwise=missing)
        return found

    def write(self, name: str, content: bytes, tag: str | None) -> str | None:
        """See `Files.write`."""
        from azure.core import MatchConditions
        from azure.storage.blob import ContentSettings

        condition: dict[str, Any] = {"overwrite": False}
        if tag is not None:
            condition = {"overwrite": True, "etag": tag, "match_condition": MatchConditions.IfNotModified}

        def put() -> str:
            kind = ContentSettings(content_type="application/json")
            blob = self._sdk.client().get_blob_client(name)
            return str(blob.upload_blob(content, content_settings=kind, **condition)["etag"])

        changed = dict.fromkeys(("BlobAlreadyExists", "ConditionNotMet", "TargetConditionNotMet", "BlobNotFound"))
        written: str | None = self._asked(name, put, otherwise=changed)
        return written

    def create(self, name: str, content: bytes, *, sealed: bool, facts: Mapping[str, str]) -> bool:
        """See `Files.create`."""
        from azure.storage.blob import ContentSettings

        kind = ContentSettings(content_type=_TYPES[Path(name).suffix])
        about = {**facts, "sealed": "true"} if sealed else {**facts}

        def put() -> bool:
            blob = self._sdk.client().get_blob_client(name)
            blob.upload_blob(content, overwrite=False, content_settings=kind, metadata=about)
            return True

        created: bool = self._asked(name, put, otherwise={"BlobAlreadyExists": False, "ConditionNotMet": False})
        return created

    def look(self, name: str) -> Look:
        """See `Files.look`."""

        def head() -> Look:
            found = self._sdk.client().get_blob_client(name).get_blob_properties()
            return "sealed" if found.metadata.get("sealed") == "true" else "landed"

        seen: Look = self._asked(name, head, otherwise={"BlobNotFound": "missing", "ContainerNotFound": "missing"})
        return seen

    def _asked(self, name: str, ask: Any, *, otherwise: Mapping[str, Any]) -> Any:
        """What `ask` gives; for some codes of the service, what is said here. Raises: as `Files`."""
        from poller.stores.azure.errors import FAILURES, code_of

        own = self._settings
        try:
            try:
                return sent(ask)
            except FAILURES as failed:
                if code_of(failed) != "ContainerNotFound" or "ContainerNotFound" in otherwise or not own.create:
                    raise
                self._create()
                return sent(ask)
        except FAILURES as failed:  # from None: the SDK's text may hold a signed address
            if code_of(failed) in otherwise:
                return otherwise[code_of(failed)]
            raise failure(
                failed,
                self.place(name),
                role=f"Grant this identity 'Storage Blob Data Contributor' on the container {own.container}; it takes "
                "minutes to apply.",
                missing=f"Make it: az storage container create --name {own.container}, or set create = true.",
            ) from None

    def _create(self) -> None:
        from azure.core.exceptions import ResourceExistsError

        with contextlib.suppress(ResourceExistsError):
            self._sdk.client().create_container()

    def close(self) -> None:
        """Close connections."""
        self._sdk.close()


def placeholders(path: str) -> set[str]:
    """The names in braces."""
    return set(_PLACE.findall(path))


def fault(path: str) -> str | None:
    """What is wrong with a path, as a predicate; None: nothing."""
    known = (*OF_POLLER, *OF_DATE)
    unknown = sorted(placeholders(path) - {*known})
    if unknown:
        return f"has {{{unknown[0]}}}; there are: {', '.join(f'{{{name}}}' for name in known)}"
    if _REST.fullmatch(_PLACE.sub("x", path)) is None or ".." in path:
        return 'must be folders such as "{poller}/{date}": letters, digits, "-", "_", "=" and "." between slashes'
    return None


def folder(path: str, *, app: str, poller: str, value: Any = None) -> str:
    """The folder of a row. `value`: what is in its date column; a moment counts in UTC, one without a zone as it
    is."""
    moment = _moment(value) if placeholders(path) & {*OF_DATE} else None
    words = {"app": app, "poller": poller}
    words.update({name: _written(moment, form) if moment else NO_DATE for name, form in OF_DATE.items()})
    return path.format(**words)


def _written(moment: datetime, form: str) -> str:
    """By `strftime`, which on some systems writes years below 1000 with fewer digits."""
    return moment.strftime(form.replace("%Y", f"{moment.year:04}"))


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        try:
            return value.astimezone(UTC) if value.tzinfo is not None else value
        except OverflowError:  # at either end of the calendar
            return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return None
