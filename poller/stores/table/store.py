"""Documents as entities in Azure Table Storage or Azurite. Only this package imports azure.data.tables.

One `read` is one GET and one `write` is one PUT or POST, sent once: the caller decides about sending again, because
only it can know whether an earlier copy was applied (protocol, "Facts about azure-storage-blob"). Two exceptions cost
one request more: a document larger than `ASKED_FIRST` that was changed meanwhile is read twice, and the first write
into a table that does not exist creates it. The tag is the ETag. Server times have a precision of a second.

The service has no conditional GET. So a reader that knows the present version gets the whole document all the same;
only of a large one it asks for the tag alone, and for the document when the tag is another.

`Timeout` limits an answer as in the blob store.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from azure.core import MatchConditions
from azure.data.tables import TableEntity, UpdateMode

from poller.entra import Identity
from poller.errors import StoreError, WriteConflict
from poller.model.finding import Finding
from poller.ports import Found, Listed, Missing, Timeout, Unchanged, Written, unquoted
from poller.stores.azure.client import ServiceAccess
from poller.stores.azure.errors import FAILURES, code_of, status_of
from poller.stores.azure.transport import seconds
from poller.stores.table.bodies import body_in, check_size, properties_of
from poller.stores.table.checkup import examine
from poller.stores.table.entities import Entities
from poller.stores.table.keys import LONGEST, EntityKeys, beginning_with, keys_of, lines_of, name_of
from poller.stores.table.log import LOG, TableLog
from poller.stores.times import header_time, plausible

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

ASKED_FIRST = 32 * 1024
"""Bytes from which on a reader asks for the tag before the document."""
_MOST_KEPT = 1024
"""The large documents whose tag is remembered."""
_TAG = re.compile(r"W/\"datetime'([^'\"]+)'\"")


class TableStore:
    """A `StateStore` in one table. Made by `from_connection_string`, `from_identity` or `from_settings`.

    A log document is an entity for each line. A document has at most `HELD_EVERYWHERE` bytes.
    """

    def __init__(self, entities: Entities) -> None:
        self._entities = entities
        self._log = TableLog(entities)
        self._large: dict[str, str] = {}

    @classmethod
    def from_connection_string(cls, connection_string: str, table: str = "dbstate") -> TableStore:
        """With an account key or a SAS token. `UseDevelopmentStorage=true` is Azurite on its usual ports.

        Raises: ConfigError (not a connection string, not a table's name); it never repeats the connection string.
        """
        return cls(Entities(ServiceAccess.by_key(connection_string, "table"), table))

    @classmethod
    def from_identity(
        cls,
        account_url: str,
        table: str = "dbstate",
        *,
        client_id: str | None = None,
        credential: TokenCredential | None = None,
    ) -> TableStore:
        """Without a key: with `credential`, or else DefaultAzureCredential (`client_id`: the identity's).

        Raises: ConfigError (no https address, not a table's name).
        """
        access = ServiceAccess.by_identity(account_url, "table", Identity(client_id), credential=credential)
        return cls(Entities(access, table))

    @classmethod
    def from_settings(cls, name: str, table: str, environ: Mapping[str, str]) -> TableStore:
        """For `[state] connection = name`, as `account.from_environment` reads it: a connection string, or an identity
        with `NAME__tableServiceUri` or `NAME__accountName`.

        Raises: ConfigError with key `state.connection`, naming the settings that were searched.
        """
        return cls(Entities(ServiceAccess.from_settings(name, "table", environ, why='store = "table"'), table))

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        """See `StateStore.read`: one GET, and of a large document that was changed one more."""
        if unless is not None and self._large.get(name) == unless:
            answer = self._get(name, timeout, select=["RowKey"])
            if isinstance(answer, Missing):
                return answer
            if answer[1] == unless:
                return Unchanged(answer[2])
        answer = self._get(name, timeout)
        if isinstance(answer, Missing):
            return answer
        entity, tag, server_time = answer
        if tag == unless:
            return Unchanged(server_time)
        body = body_in(entity)
        self._remember(name, tag, body)
        return Found(body, tag, server_time, _whole_second(entity.metadata.get("timestamp")))

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        """See `StateStore.write`: one conditional PUT, or a POST that creates; a missing table is created with its
        first document.

        Raises: also StoreError (the document is larger than an entity, or the name longer than a key).
        """
        check_size(body, self._entities.locate(name), name)
        keys = self._keys(name)
        entity = {"PartitionKey": keys.partition, "RowKey": keys.row, **properties_of(body)}
        try:
            if if_tag is None:
                answer = self._entities.insert(entity, timeout)
            else:
                self._check_tag(if_tag, name)
                same: dict[str, Any] = {"match_condition": MatchConditions.IfNotModified, "etag": if_tag}
                answer = self._entities.client().update_entity(entity, UpdateMode.REPLACE, **same, **seconds(timeout))
        except FAILURES as error:
            raise self._entities.translated(error, name, creating=if_tag is None) from None
        tag = answer.get("etag")
        if not isinstance(tag, str) or not tag.endswith('"'):  # without a whole tag it is unknown what was written
            raise self._entities.no_table_service(name)
        self._remember(name, tag, body)
        server_time = plausible(answer.get("date"))
        return Written(tag, server_time, _time_in(tag) or server_time)

    def remove(self, name: str, *, if_tag: str, timeout: Timeout | None = None) -> None:
        """See `StateStore.remove`: one conditional DELETE."""
        self._check_tag(if_tag, name)
        keys, status = self._keys(name), 0

        def keep_status(response: Any) -> None:
            nonlocal status
            status = response.http_response.status_code

        same: dict[str, Any] = {"match_condition": MatchConditions.IfNotModified, "etag": if_tag}
        options = {"raw_response_hook": keep_status, **seconds(timeout)}
        try:
            self._entities.client().delete_entity(keys.partition, keys.row, **same, **options)
        except FAILURES as error:
            raise self._entities.translated(error, name) from None
        if status == 404:  # of which the SDK says nothing
            raise self._conflict(name)

    def append(self, name: str, line: str, *, timeout: Timeout | None = None) -> None:
        """See `StateStore.append`: safe with any number of other appenders."""
        if "\n" in line:
            raise ValueError("a line of a log document contains no line break")
        self._keys(name, lines_of(name))
        self._log.append(name, line, timeout)

    def lines(self, name: str, *, limit: int | None = None) -> list[str]:
        """See `StateStore.lines` and `NumberedLog.lines`."""
        return self._log.lines(name, limit)

    def names(self, prefix: str) -> Iterator[str]:
        """See `StateStore.names`: one GET for each 1,000."""
        found = self._entities.query(beginning_with(prefix), "PartitionKey", "RowKey", name=prefix)
        return iter(sorted(name for entity in found if (name := _name(entity)).startswith(prefix)))

    def listed(self, prefix: str, *, timeout: Timeout | None = None) -> Iterator[Listed]:
        """See `ListingStore.listed`: one GET for each 1,000."""
        columns = ("PartitionKey", "RowKey", "Timestamp", *LOG)
        found = []
        for entity in self._entities.query(beginning_with(prefix), *columns, name=prefix, timeout=timeout):
            name = _name(entity)
            if name.startswith(prefix) and not LOG.items() <= entity.items():
                tag = unquoted(str(entity.metadata.get("etag") or ""))
                found.append(Listed(name, tag, _whole_second(entity.metadata.get("timestamp"))))
        return iter(sorted(found, key=lambda one: one.name))

    def locate(self, name: str) -> str:
        """See `StateStore.locate`."""
        return self._entities.locate(name)

    def checkup(self, name: str, *, exists: bool = True) -> list[Finding]:  # noqa: ARG002 - one table for all
        """What `poller check` says of the table and its account; `name`: a document that may exist.

        Raises: StoreUnavailable.
        """
        return examine(self._entities, name)

    def close(self) -> None:
        """See `StateStore.close`."""
        self._entities.close()

    def _get(
        self, name: str, timeout: Timeout | None, *, select: list[str] | None = None
    ) -> tuple[TableEntity, str, datetime | None] | Missing:
        """An entity, its tag, and the server's time."""
        headers: Mapping[str, str] = {}

        def keep_headers(response: Any) -> None:
            nonlocal headers
            headers = response.http_response.headers

        keys, options = self._keys(name), {"raw_response_hook": keep_headers, **seconds(timeout)}
        try:
            entity = self._entities.client().get_entity(keys.partition, keys.row, select=select, **options)
        except FAILURES as error:
            if status_of(error) == 404 and code_of(error):
                return Missing(header_time(headers, "Date"))
            raise self._entities.translated(error, name, reading=True) from None
        tag = headers.get("ETag")
        if not tag or not tag.endswith('"') or "RowKey" not in entity:
            raise self._entities.no_table_service(name)
        return entity, tag, header_time(headers, "Date")

    def _remember(self, name: str, tag: str, body: bytes) -> None:
        if len(body) < ASKED_FIRST:
            self._large.pop(name, None)
            return
        if len(self._large) >= _MOST_KEPT:
            self._large.clear()
        self._large[name] = tag

    def _keys(self, name: str, *others: str) -> EntityKeys:
        keys = keys_of(name)
        if max(map(len, (*keys, *others))) > LONGEST:
            raise StoreError(
                f"The name of the {self._entities.locate(name)} is longer than a key of Table Storage.",
                document=name,
                next_step="Give the app or the poller a shorter name.",
            )
        return keys

    def _check_tag(self, tag: str, name: str) -> None:
        """What is not a tag of this service is the tag of no version here. Raises: WriteConflict."""
        if not tag.startswith('W/"'):
            raise self._conflict(name)

    def _conflict(self, name: str) -> WriteConflict:
        return WriteConflict(f"{self.locate(name)} is not the version this write was for.", document=name)


def _name(entity: TableEntity) -> str:
    return name_of(str(entity.get("PartitionKey")), str(entity.get("RowKey")))


def _time_in(tag: str) -> datetime | None:
    """When the version with this tag was written: the service's tags hold its time, in 100 ns."""
    found = _TAG.fullmatch(tag)
    try:
        return _whole_second(datetime.fromisoformat(unquote(found[1]))) if found else None
    except ValueError:
        return None


def _whole_second(value: object) -> datetime | None:
    """A time as `Date` would show it, which is compared with it."""
    at = plausible(value)
    return None if at is None else datetime.fromtimestamp(int(at.timestamp()), tz=at.tzinfo)
