"""Log documents as items: one for each line, in the log's partition, and one that says there is a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from poller.ports import Timeout
from poller.stores.cosmos.container import CosmosContainer
from poller.stores.cosmos.errors import FAILURES, status_of
from poller.stores.cosmos.items import LINE, LOG, app_of, body_in, check_item, id_of, lines_of, text_property
from poller.stores.numbered import NumberedLog


class CosmosLog(NumberedLog):
    """See `NumberedLog`. A line too large for an item is a StoreError."""

    def __init__(self, container: CosmosContainer) -> None:
        super().__init__()
        self._container = container

    def locate(self, name: str) -> str:
        """See `NumberedLog.locate`."""
        return self._container.locate(name)

    def newest(self, name: str, timeout: Timeout | None) -> str:
        """See `NumberedLog.newest`: one query."""
        found = self._items(name, "c.id", 1, timeout)
        return next((str(item.get("id")).removeprefix(lines_of(name)) for item in found), "")

    def begin(self, name: str, timeout: Timeout | None) -> None:
        """See `NumberedLog.begin`: one POST."""
        self._create(name, {"id": id_of(name), "app": app_of(name), "kind": LOG}, timeout)

    def create(self, name: str, digits: str, line: str, timeout: Timeout | None) -> bool:
        """See `NumberedLog.create`: one POST."""
        text = text_property(line.encode("utf-8", "replace"))
        item = {"id": f"{lines_of(name)}{digits}", "app": app_of(name), "kind": LINE, **text}
        check_item(item, self.locate(name), name)
        return self._create(name, item, timeout)

    def newest_first(self, name: str, limit: int | None, page: int) -> Iterator[str]:  # noqa: ARG002 - whole lines
        """See `NumberedLog.newest_first`."""
        for item in self._items(name, "c.id, c.text, c.base64", page, None):
            yield body_in(item).decode("utf-8", "replace")

    def _items(self, name: str, what: str, page: int, timeout: Timeout | None) -> Iterator[dict[str, Any]]:
        app = app_of(name)
        return self._container.query(
            f"SELECT {what} FROM c WHERE c.app = @app AND STARTSWITH(c.id, @id) ORDER BY c.id",  # noqa: S608
            {"app": app, "id": lines_of(name)},
            app,
            name=name,
            page=page,
            timeout=timeout,
        )

    def _create(self, name: str, item: dict[str, Any], timeout: Timeout | None) -> bool:
        try:
            self._container.ask(name, lambda container, options: container.create_item(item, **options), timeout)
        except FAILURES as error:
            if status_of(error) != 409:
                raise self._container.translated(error, name) from None
            return False
        return True
