"""Log documents as objects: one for each line, and one that says there is a log.

Lines of `audit/shop/orders.jsonl` are `~lines/audit/shop/orders.jsonl/9999999999999998` and so on: a listing of
documents does not pass through them, and a lifecycle rule on `~lines/audit/` deletes old lines and leaves what says
that there was a log.
"""

from __future__ import annotations

from collections.abc import Iterator

from poller.model.limits import longest_line
from poller.ports import Timeout
from poller.stores.numbered import NumberedLog
from poller.stores.s3.bucket import Bucket
from poller.stores.s3.errors import FAILURES, code_of, status_of, tag_of

LINES = "~lines/"
"""Keys of lines begin with it."""
BEYOND_LINES = "~lines0"
"""Comes after every key of a line, and before every other."""
MARK = "/"
"""Ends the key of the object that says there is a log."""
_TYPE = "application/x-ndjson; charset=utf-8"


class S3Log(NumberedLog):
    """See `NumberedLog`."""

    def __init__(self, bucket: Bucket) -> None:
        super().__init__()
        self._bucket = bucket

    def locate(self, name: str) -> str:
        """See `NumberedLog.locate`."""
        return self._bucket.locate(name)

    def newest(self, name: str, timeout: Timeout | None) -> str:
        """See `NumberedLog.newest`: one LIST."""
        beginning = f"{LINES}{name}/"
        found = self._bucket.objects(beginning, timeout, page=1)
        return next((one.key.removeprefix(beginning) for one in found), "")

    def begin(self, name: str, timeout: Timeout | None) -> None:
        """See `NumberedLog.begin`: one PUT."""
        self._create(name, f"{name}{MARK}", b"", timeout)

    def create(self, name: str, digits: str, line: str, timeout: Timeout | None) -> bool:
        """See `NumberedLog.create`: one PUT."""
        return self._create(name, f"{LINES}{name}/{digits}", f"{line}\n".encode(), timeout)

    def newest_first(self, name: str, limit: int | None, page: int) -> Iterator[str]:
        """See `NumberedLog.newest_first`: one LIST for each page, and a GET for each line."""
        for one in self._bucket.objects(f"{LINES}{name}/", page=page):
            line = self._line(one.key, name, 4 * longest_line(limit))
            if line is not None:
                yield line

    def _line(self, key: str, name: str, most: int) -> str | None:
        """A line's beginning; None if it was deleted meanwhile."""
        try:
            answer = self._bucket.call("get_object", None, Key=key, Range=f"bytes=0-{most}")
        except FAILURES as error:
            if status_of(error) in {404, 416} and code_of(error) in {"NoSuchKey", "InvalidRange"}:
                return None
            raise self._bucket.translated(error, name, reading=True) from None
        body: bytes = answer["Body"]
        return body.removesuffix(b"\n").decode("utf-8", "replace")

    def _create(self, name: str, key: str, body: bytes, timeout: Timeout | None) -> bool:
        try:
            answer = self._bucket.call("put_object", timeout, Key=key, Body=body, IfNoneMatch="*", ContentType=_TYPE)
            tag_of(answer)
        except FAILURES as error:
            if status_of(error) == 412 or code_of(error) == "ConditionalRequestConflict":
                return False
            raise self._bucket.translated(error, name) from None
        return True
