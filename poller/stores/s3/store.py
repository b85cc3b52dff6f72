"""Documents as objects in a bucket of Amazon S3. Only this package imports boto3.

One `read` is one GET and one `write` is one PUT, sent once: the caller decides about sending again, because only it can
know whether an earlier copy was applied (protocol 2). That holds for a 409 too, by which the service says that another
write to the same object was under way: nothing was written. Two exceptions cost more: an object without a byte (never
ours) is read twice, and with an endpoint of one's own a process tries once, before its first write, whether the
service keeps conditions (`conditions`). The tag is the ETag. Server times
have a precision of a second; the answer to a PUT has no Last-Modified, so `Written` has `Date` in its place, which may
be a second later.

S3's ETag is a hash of an object's bytes: a document that is written twice as it is would keep its tag, and one that was
changed and changed back would have an old tag again. So each write adds 64 blanks of its own (spaces and tabs, at
random) behind a line break (`padded`). For other readers they are white space of JSON; a read takes them away.

`Timeout` limits an answer as in the blob store.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Any

from poller.errors import WriteConflict
from poller.model.finding import Finding
from poller.model.limits import LARGEST_BODY
from poller.ports import Found, Listed, Missing, Timeout, Unchanged, Written, unquoted
from poller.stores.s3.bucket import Bucket, ListedObject
from poller.stores.s3.checkup import examine
from poller.stores.s3.conditions import KEY, try_conditions
from poller.stores.s3.errors import FAILURES, code_of, headers_of, status_of, tag_of
from poller.stores.s3.log import BEYOND_LINES, LINES, MARK, S3Log
from poller.stores.times import header_time, plausible

_JSON = "application/json; charset=utf-8"
_BITS = 64
PADDED = _BITS + 1
"""Bytes that a write adds to a document."""
_PADDING = re.compile(rb"\n[ \t]{%d}\Z" % _BITS)
_BLANKS = str.maketrans("01", " \t")


class S3Store:
    """A `StateStore` in one bucket. Credentials are those that boto3 finds: variables, a profile, or a role.

    Args:
        bucket: its name. It must exist.
        region: of the bucket; None for what boto3 finds (`AWS_REGION`, the profile).
        endpoint: the https address of another service that speaks S3's protocol; None for AWS.

    Raises: ConfigError (no name of a bucket or region, no address).
    """

    def __init__(self, bucket: str, *, region: str | None = None, endpoint: str | None = None) -> None:
        self._bucket = Bucket(bucket, region, endpoint)
        self._log = S3Log(self._bucket)
        self._tried = endpoint is None

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        """See `StateStore.read`: one conditional GET."""
        asked: dict[str, Any] = {"Key": name} if unless is None else {"Key": name, "IfNoneMatch": unless}
        # Further bytes than a document may have show that it is too large; the rest is not fetched.
        span = f"bytes=0-{LARGEST_BODY + PADDED}"
        try:
            try:
                answer = self._bucket.call("get_object", timeout, Range=span, **asked)
            except FAILURES as error:
                if status_of(error) != 416:  # an object without a byte has no range
                    raise
                answer = self._bucket.call("get_object", timeout, **asked)
        except FAILURES as error:
            if status_of(error) == 304 and unless is not None:
                return Unchanged(header_time(headers_of(error), "date"))
            if status_of(error) == 404 and code_of(error) == "NoSuchKey":
                return Missing(header_time(headers_of(error), "date"))
            raise self._bucket.translated(error, name, reading=True) from None
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        body = unpadded(answer["Body"])[: LARGEST_BODY + 1]
        return Found(body, self._tag(answer, name), header_time(headers, "date"), header_time(headers, "last-modified"))

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        """See `StateStore.write`: one conditional PUT."""
        if not self._tried:
            try_conditions(self._bucket, name, timeout)
            self._tried = True
        condition = {"IfNoneMatch": "*"} if if_tag is None else {"IfMatch": if_tag}
        try:
            answer = self._bucket.call(
                "put_object", timeout, Key=name, Body=padded(body), ContentType=_JSON, **condition
            )
        except FAILURES as error:
            raise self._bucket.translated(error, name) from None
        at = header_time(answer["ResponseMetadata"]["HTTPHeaders"], "date")
        return Written(self._tag(answer, name), at, at)

    def remove(self, name: str, *, if_tag: str, timeout: Timeout | None = None) -> None:
        """See `StateStore.remove`: one conditional DELETE."""
        if not if_tag.startswith('"'):  # not a tag of this service, so of no version here
            raise WriteConflict(f"{self.locate(name)} is not the version to be removed.", document=name)
        try:
            answer = self._bucket.call("delete_object", timeout, Key=name, IfMatch=if_tag)
        except FAILURES as error:
            raise self._bucket.translated(error, name) from None
        if answer["ResponseMetadata"]["HTTPStatusCode"] != 204:
            raise self._bucket.no_s3_service(name)

    def append(self, name: str, line: str, *, timeout: Timeout | None = None) -> None:
        """See `StateStore.append`: safe with any number of other appenders."""
        if "\n" in line:
            raise ValueError("a line of a log document contains no line break")
        self._log.append(name, line, timeout)

    def lines(self, name: str, *, limit: int | None = None) -> list[str]:
        """See `StateStore.lines` and `NumberedLog.lines`."""
        return self._log.lines(name, limit)

    def names(self, prefix: str) -> Iterator[str]:
        """See `StateStore.names`: one LIST for each 1,000."""
        names = (one.key.removesuffix(MARK) for one in self._documents(prefix))
        return iter(sorted(name for name in names if name.startswith(prefix)))  # not a folder that a console made

    def listed(self, prefix: str, *, timeout: Timeout | None = None) -> Iterator[Listed]:
        """See `ListingStore.listed`: one LIST for each 1,000."""
        for one in self._documents(prefix, timeout):
            if not one.key.endswith(MARK):
                yield Listed(one.key, unquoted(one.tag), plausible(one.modified_at))

    def locate(self, name: str) -> str:
        """See `StateStore.locate`."""
        return self._bucket.locate(name)

    def checkup(self, name: str, *, exists: bool = True) -> list[Finding]:  # noqa: ARG002 - one bucket for all
        """What `poller check` says of the bucket; `name`: a document that may exist.

        Raises: StoreUnavailable.
        """
        return examine(self._bucket, name)

    def close(self) -> None:
        """See `StateStore.close`."""
        self._bucket.close()

    def _documents(self, prefix: str, timeout: Timeout | None = None) -> Iterator[ListedObject]:
        """Documents, and what says that there is a log."""
        found = self._bucket.objects(prefix, timeout)
        for one in found:
            if one.key.startswith(LINES):
                yield from self._bucket.objects_after(prefix, BEYOND_LINES, timeout)
                return
            if one.key != KEY:
                yield one

    def _tag(self, answer: dict[str, Any], name: str) -> str:
        """Raises: StoreUnavailable."""
        try:
            return tag_of(answer)
        except ValueError:
            raise self._bucket.no_s3_service(name) from None


def padded(body: bytes) -> bytes:
    """A document as it is written."""
    return body + b"\n" + format(secrets.randbits(_BITS), f"0{_BITS}b").translate(_BLANKS).encode()


def unpadded(content: bytes) -> bytes:
    """The document in an object's bytes; what others wrote comes back as it is."""
    return content[:-PADDED] if _PADDING.search(content, max(0, len(content) - PADDED)) else content
