"""Log documents as entities: one for each line, in a partition of the log's own, and one that says there is a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from poller.ports import Timeout
from poller.stores.azure.errors import FAILURES, code_of
from poller.stores.numbered import NumberedLog
from poller.stores.table.bodies import FIRST, body_in, check_size, properties_of
from poller.stores.table.entities import Entities
from poller.stores.table.keys import keys_of, lines_of

LOG = {"Kind": "log"}
"""The property by which the entity of a log is known among documents."""


class TableLog(NumberedLog):
    """See `NumberedLog`. A line too large for an entity is a StoreError."""

    def __init__(self, entities: Entities) -> None:
        super().__init__()
        self._entities = entities

    def locate(self, name: str) -> str:
        """See `NumberedLog.locate`."""
        return self._entities.locate(name)

    def newest(self, name: str, timeout: Timeout | None) -> str:
        """See `NumberedLog.newest`: one GET."""
        found = self._entities.query(
            f"PartitionKey eq '{lines_of(name)}'", "RowKey", name=name, page=1, timeout=timeout
        )
        return next((str(entity["RowKey"]) for entity in found), "")

    def begin(self, name: str, timeout: Timeout | None) -> None:
        """See `NumberedLog.begin`: one POST."""
        keys = keys_of(name)
        self._insert(name, {"PartitionKey": keys.partition, "RowKey": keys.row, **LOG}, timeout)

    def create(self, name: str, digits: str, line: str, timeout: Timeout | None) -> bool:
        """See `NumberedLog.create`: one POST."""
        body = line.encode()
        check_size(body, self.locate(name), name)
        return self._insert(name, {"PartitionKey": lines_of(name), "RowKey": digits, **properties_of(body)}, timeout)

    def newest_first(self, name: str, limit: int | None, page: int) -> Iterator[str]:
        """See `NumberedLog.newest_first`. Of a trail's line only the first property travels."""
        select = [] if limit is None else [FIRST]
        found = self._entities.query(f"PartitionKey eq '{lines_of(name)}'", *select, name=name, page=page)
        return (body_in(entity).decode("utf-8", "replace") for entity in found)

    def _insert(self, name: str, entity: dict[str, Any], timeout: Timeout | None) -> bool:
        try:
            self._entities.insert(entity, timeout)
        except FAILURES as error:
            if code_of(error) != "EntityAlreadyExists":
                raise self._entities.translated(error, name) from None
            return False
        return True
