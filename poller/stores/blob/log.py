"""Log documents as append blobs: many may append at once, and after a full blob comes the next one.

The parts of `audit/shop/orders.jsonl` are that blob, then `audit/shop/orders.jsonl.000001`, `.000002`, ...: in order of
their names, and the first one has the log's own name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from azure.core import MatchConditions
from azure.storage.blob import ContentSettings

from poller.errors import StoreUnavailable
from poller.model import limits
from poller.model.limits import newest_lines
from poller.ports import Timeout
from poller.stores.azure.errors import FAILURES, code_of, status_of
from poller.stores.azure.transport import seconds
from poller.stores.blob.container import Container

BLOCKS_PER_APPEND_BLOB = 50_000  # the service's own limit
FIRST_PIECE = 65_536
"""The bytes of a log's end that are read first, then four times as many before them, and so on. A log may hold tens of
megabytes, and a process that starts for one tick reads its end."""
_LATER_PART = re.compile(r"\.\d{6}\Z")
_LINES = ContentSettings(content_type="application/x-ndjson; charset=utf-8")
# One for each thing that may have to be created first (container, blob, next blob), and for losing races at it.
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

        Raises: as `StateStore.append`; StoreError (another kind of blob).
        """
        data = f"{line}\n".encode()
        for _ in range(_ATTEMPTS):
            part = self._newest_part(name, timeout)
            blob = self._container.blob(part_name(name, part))
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
            next_step="Find out who deletes it: a lifecycle rule of the account, perhaps.",
        )

    def lines(self, name: str, limit: int | None) -> list[str]:
        """The last `limit` lines, oldest first: one LIST, and for each part that is needed, newest first, GETs from its
        end backwards until there are enough."""
        return newest_lines(self._newest_lines(name, limit), limit)

    def _newest_lines(self, name: str, limit: int | None) -> Iterator[str]:
        wanted = limit
        for number, size in sorted(self._parts(name, None).items(), reverse=True):
            tail = self._tail(part_name(name, number), size, wanted)
            yield from reversed(tail)
            wanted = None if wanted is None else max(0, wanted - len(tail))

    def _tail(self, part: str, size: int, wanted: int | None) -> list[str]:
        """A part's last lines, `wanted` or more (None: all); fewer where they are longer than may be read. Others who
        can write the container can make a log any size."""
        begin, end, piece, body = size, None, FIRST_PIECE, b""
        lines: list[str] = []
        while begin > 0 and (wanted is None or (len(lines) < wanted and len(body) < limits.LARGEST_TRAIL)):
            begin = 0 if wanted is None else max(0, begin - piece)
            body = self._read(part, begin, end) + body
            # Not splitlines(): JSON text may hold a line separator that is not ours.
            lines = body.decode("utf-8", "replace").split("\n")[:-1]
            if begin > 0:
                del lines[:1]  # its beginning was not read
            end, piece = begin, piece * 4
        return lines

    def _read(self, part: str, begin: int, end: int | None) -> bytes:
        """A part's bytes from `begin` to `end` (None: its present end); none where it was deleted or created again."""
        span: dict[str, Any] = {"length": None if end is None else end - begin}
        if begin > 0 or end is not None:
            span["offset"] = begin
        try:
            download = self._container.blob(part).download_blob(**span, **seconds(None))
            body: bytes = download.readall()
        except FAILURES as error:
            if code_of(error) and status_of(error) in {404, 416}:
                return b""
            raise self._container.translated(error, part, reading=True) from None
        if len(body) != download.size:
            raise self._container.no_blob_service(part)
        return body

    def _newest_part(self, name: str, timeout: Timeout | None) -> int:
        if name not in self._newest:
            self._newest[name] = max(self._parts(name, timeout), default=0)
        return self._newest[name]

    def _parts(self, name: str, timeout: Timeout | None) -> dict[int, int]:
        """The numbers of the blobs that make up the log, and how long each is."""
        blobs = [(blob.name[len(name) :], blob.size) for blob in self._container.list(name, timeout) if blob.is_log]
        return {int(rest[1:] or 0): size for rest, size in blobs if rest == "" or _LATER_PART.fullmatch(rest)}

    def _make_room(self, name: str, part: int, error: Exception, timeout: Timeout | None) -> None:
        """Do what the next attempt needs, or raise what is in its way."""
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
        blob = self._container.blob(name)
        try:
            # Only where there is none: creating it again would delete what another process has appended since.
            blob.create_append_blob(_LINES, match_condition=MatchConditions.IfMissing, **seconds(timeout))
        except FAILURES as error:
            if code_of(error) != "BlobAlreadyExists":
                raise self._container.translated(error, name) from None


def part_name(name: str, number: int) -> str:
    """The name of a log's part; the first has the log's own."""
    return name if number == 0 else f"{name}.{number:06d}"


def log_name(part: str) -> str:
    """The name of the log that this append blob is a part of."""
    return _LATER_PART.sub("", part)
