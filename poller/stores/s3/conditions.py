"""Does a service keep the conditions on which leases rest? Tried with one object of its own.

AWS does. Another service may take `If-Match` and `If-None-Match` and write all the same: then two workers would hold
one lease.
"""

from __future__ import annotations

from poller.errors import StoreDenied
from poller.ports import Timeout
from poller.stores.s3.bucket import Bucket
from poller.stores.s3.errors import FAILURES, status_of

KEY = "~conditions"
_TEXT = b"poller tries here whether this service keeps If-Match and If-None-Match.\n"
_NO_SUCH_TAG = '"00000000000000000000000000000000"'
"""No version of the object has it."""


def try_conditions(bucket: Bucket, name: str, timeout: Timeout | None = None) -> None:
    """Two writes that must be refused, and the first time one that makes the object.

    Raises: StoreDenied (a write was not refused, or no write is permitted), StoreUnavailable.
    """
    created = _written(bucket, name, timeout, IfNoneMatch="*")
    ignored = "If-None-Match" if created and _written(bucket, name, timeout, IfNoneMatch="*") else ""
    if not ignored and _written(bucket, name, timeout, IfMatch=_NO_SUCH_TAG):
        ignored = "If-Match"
    if ignored:
        raise StoreDenied(
            f"{bucket.locate('')} ignores {ignored}: two workers could hold one lease.",
            document=name,
            next_step="Update the service of state.endpoint, or use another one.",
        )


def _written(bucket: Bucket, name: str, timeout: Timeout | None, **condition: str) -> bool:
    try:
        bucket.call("put_object", timeout, Key=KEY, Body=_TEXT, ContentType="text/plain", **condition)
    except FAILURES as error:
        if status_of(error) == 412:
            return False
        raise bucket.translated(error, name) from None
    return True
