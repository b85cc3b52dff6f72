"""Log documents as append blobs: many may append at once, and a full blob is followed by the next.

The parts of `audit/shop/orders.jsonl` are that blob, then `audit/shop/orders.jsonl.000001`, `.000002`, ...: in order of
their names, and the first one has the name that everybody knows.
"""

from __future__ import annotations

import re

from azure.core import MatchConditions
from azure.storage.blob import ContentSettings

from poller.errors import StoreUnavailable
from poller.ports import Timeout
from poller.stores._blob_container import FAILURES, Container, seconds
from poller.stores._blob_errors import code_of, status_of

BLOCKS_PER_APPEND_BLOB = 50_000  # the service's own limit
_LATER_PART = re.compile(r"\.\d{6}\Z")
_LINES = ContentSettings(content_type="application/x-ndjson; charset=utf-8")
# One for each thing that may have to be made first (container, blob, next blob), and for being overtaken in it.
_ATTEMPTS = 10


class BlobLog:
    """Appends to and finds the parts of log documents. `blocks`: how many appends fill a part.

    Below the service's own limit a part may get one line more from every process that appends at that moment.
    """

    def __init__(self, container: Container, blocks: int = BLOCKS_PER_APPEND_BLOB) -> None:
        self._container = container
        self._blocks = blocks
        self._newest: dict[str, int] = {}  # only a hint: the service says when it is full or gone

    def append(self, name: str, line: str, timeout: Timeout | None) -> None:
        """One PUT, once this process has found the newest part (one LIST).

        Raises: StoreUnavailable (the line may or may not be there), StoreDenied, StoreError (another kind of blob).
        """
        data = f"{line}\n".encode()
        for _ in range(_ATTEMPTS):
            part = self._newest_part(name, timeout)
            blob = self._container.client().get_blob_client(part_name(name, part))
            try:
                answer = blob.append_block(data, length=len(data), **seconds(timeout))
            except FAILURES as error:
                self._make_room(name, part, error, timeout)
                continue
            count = answer.get("blob_committed_block_count")
            if isinstance(count, int) and count >= self._blocks:
                self._newest[name] = part + 1
            return
        raise StoreUnavailable(
            f"{self._container.locate(name)} disappears while it is written.",
            document=name,
            next_step="See who deletes it: a lifecycle rule of the account, perhaps.",
        )

    def parts(self, name: str) -> list[str]:
        """The names of the blobs that make up the log `name`, oldest first. Raises: StoreUnavailable, StoreDenied."""
        return [part_name(name, number) for number in self._numbers(name, None)]

    def _newest_part(self, name: str, timeout: Timeout | None) -> int:
        if name not in self._newest:
            self._newest[name] = max(self._numbers(name, timeout), default=0)
        return self._newest[name]

    def _numbers(self, name: str, timeout: Timeout | None) -> list[int]:
        rests = [found[len(name) :] for found, is_log in self._container.list(name, timeout) if is_log]
        return sorted(int(rest[1:] or 0) for rest in rests if rest == "" or _LATER_PART.fullmatch(rest))

    def _make_room(self, name: str, part: int, error: Exception, timeout: Timeout | None) -> None:
        """Do what the next attempt needs, or raise what stands in its way."""
        code = code_of(error)
        if code == "ContainerNotFound":
            self._container.create(timeout)
        elif code == "BlockCountExceedsLimit":
            self._newest[name] = part + 1
        elif status_of(error) == 404 and code:
            self._create_part(part_name(name, part), timeout)
        else:
            raise self._container.translated(error, name) from None

    def _create_part(self, name: str, timeout: Timeout | None) -> None:
        blob = self._container.client().get_blob_client(name)
        try:
            # Only where there is none: creating it anew would empty what another process has appended since.
            blob.create_append_blob(_LINES, match_condition=MatchConditions.IfMissing, **seconds(timeout))
        except FAILURES as error:
            if code_of(error) != "BlobAlreadyExists":
                raise self._container.translated(error, name) from None


def part_name(name: str, number: int) -> str:
    """The name of a log's part; the first has the log's own."""
    return name if number == 0 else f"{name}.{number:06d}"


def is_later_part(name: str) -> bool:
    """Whether this append blob continues another, and is no document of its own."""
    return _LATER_PART.search(name) is not None
