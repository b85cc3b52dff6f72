"""Log documents as entities: one for each line, in a partition of the log's own, and one that says there is a log.

Lines are numbered, and a line is created under a number that is free: so of two that append at once each gets one of
its own, and their order is that of the numbers. The key counts down from the highest number, so that a query, which
can go through keys in ascending order only, finds the newest line first.
"""

from __future__ import annotations

from poller.errors import StoreUnavailable
from poller.model.limits import newest_lines
from poller.ports import Timeout
from poller.stores.azure.errors import FAILURES, code_of
from poller.stores.table.bodies import FIRST, body_in, check_size, properties_of
from poller.stores.table.entities import PAGE, Entities
from poller.stores.table.keys import keys_of, lines_of

LOG = {"Kind": "log"}
"""The property by which the entity of a log is known among documents."""
_HIGHEST = 10**16 - 1
# One for each other process that appends at the same moment, and then some.
_ATTEMPTS = 50


class TableLog:
    """Appends lines to log documents and finds them."""

    def __init__(self, entities: Entities) -> None:
        self._entities = entities
        self._newest: dict[str, int] = {}  # only a hint: the service says when the number is taken

    def append(self, name: str, line: str, timeout: Timeout | None) -> None:
        """One POST, once this process knows the newest number (one GET).

        Raises: as `StateStore.append`; StoreError (a line too large for an entity).
        """
        body = line.encode()
        check_size(body, self._entities.locate(name), name)
        for _ in range(_ATTEMPTS):
            number = self._newest_number(name, timeout) + 1
            keys = {"PartitionKey": lines_of(name), "RowKey": _row(number)}
            try:
                if number == 1:
                    self._begin(name, timeout)
                self._entities.insert({**keys, **properties_of(body)}, timeout)
            except FAILURES as error:
                self._newest.pop(name, None)
                if code_of(error) != "EntityAlreadyExists":
                    raise self._entities.translated(error, name) from None
                continue
            self._newest[name] = number
            return
        raise StoreUnavailable(
            f"Others write to {self._entities.locate(name)} all the time.",
            document=name,
            next_step="Try again.",
        )

    def lines(self, name: str, limit: int | None) -> list[str]:
        """The last `limit` lines, oldest first: one GET for each 1,000 of them, from the newest on. Of a trail's line
        only the first property travels."""
        select, page = ([], PAGE) if limit is None else ([FIRST], min(limit, PAGE))
        found = self._entities.query(f"PartitionKey eq '{lines_of(name)}'", *select, name=name, page=page)
        return newest_lines((body_in(entity).decode("utf-8", "replace") for entity in found), limit)

    def _newest_number(self, name: str, timeout: Timeout | None) -> int:
        if name not in self._newest:
            newest = self._entities.query(
                f"PartitionKey eq '{lines_of(name)}'", "RowKey", name=name, page=1, timeout=timeout
            )
            rows = [str(entity["RowKey"]) for entity, _ in zip(newest, range(1), strict=False)]
            self._newest[name] = _HIGHEST - int(rows[0]) if rows and rows[0].isdecimal() else 0
        return self._newest[name]

    def _begin(self, name: str, timeout: Timeout | None) -> None:
        """Say that there is such a log, unless another did."""
        keys = keys_of(name)
        try:
            self._entities.insert({"PartitionKey": keys.partition, "RowKey": keys.row, **LOG}, timeout)
        except FAILURES as error:
            if code_of(error) != "EntityAlreadyExists":
                raise


def _row(number: int) -> str:
    return f"{_HIGHEST - number:016d}"
