"""The doctor's storage side: the bucket, what may be done in it, and settings that keep copies of every write."""

from __future__ import annotations

from poller import once, tls
from poller.errors import StoreDenied
from poller.model.finding import Finding, error, ok, warn
from poller.stores.s3.bucket import Bucket
from poller.stores.s3.conditions import try_conditions
from poller.stores.s3.errors import FAILURES

_AWS = "https://s3.amazonaws.com"


def examine(bucket: Bucket, name: str) -> list[Finding]:
    """Checks https, listing, that the service keeps conditions (by writing its own object `~conditions`), and
    versioning, once per command.

    Raises: StoreUnavailable.
    """
    return [
        *tls.of_address(bucket.endpoint or _AWS, step="Write https:// in state.endpoint."),
        *once.ask((bucket, "bucket"), lambda: _bucket(bucket, name), keep=_is_fine),
        *once.ask((bucket, "conditions"), lambda: _conditions(bucket, name), keep=_is_fine),
        *once.ask((bucket, "versioning"), lambda: _versioning(bucket)),
    ]


def _is_fine(found: list[Finding]) -> bool:
    """A refusal names the document."""
    return all(one.severity == "ok" for one in found)


def _bucket(bucket: Bucket, name: str) -> list[Finding]:
    try:
        next(bucket.objects(name, page=1), None)
    except StoreDenied as refused:
        message = "Listing is not permitted: no poller can start for the first time, and no audit trail is kept."
        return [error("listing", f"{message} {refused.message}", refused.next_step)]
    return [ok("bucket", f"{bucket.locate('')} exists")]


def _conditions(bucket: Bucket, name: str) -> list[Finding]:
    try:
        try_conditions(bucket, name)
    except StoreDenied as refused:
        return [error("changing", refused.message, refused.next_step)]
    return [ok("changing", "conditional writes are permitted, and kept")]


def _versioning(bucket: Bucket) -> list[Finding]:
    """Read where permitted (s3:GetBucketVersioning)."""
    try:
        status = bucket.call("get_bucket_versioning", None).get("Status")
    except FAILURES:
        return []
    if status != "Enabled":
        return [ok("versioning", "bucket versioning is off")]
    return [
        warn(
            "versioning",
            "Bucket versioning keeps every version of the state document, one per heartbeat.",
            f"Keep state in a bucket of its own: aws s3api put-bucket-versioning --bucket {bucket.name} "
            "--versioning-configuration Status=Suspended (or a lifecycle rule that deletes noncurrent versions)",
        )
    ]
