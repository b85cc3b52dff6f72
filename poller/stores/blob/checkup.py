"""The doctor's storage side: the container, and settings of the account that keep a copy of every write."""

from __future__ import annotations

from azure.core import MatchConditions
from azure.storage.blob import BlobServiceClient

from poller import tls
from poller.errors import StoreDenied
from poller.model.finding import Finding, error, ok, warn
from poller.stores.blob.container import FAILURES, Container, seconds
from poller.stores.blob.transport import code_of, status_of

_NO_SUCH_TAG = '"0x0"'
"""No version of any blob has it: what is asked on this condition is never done."""


def examine(container: Container, name: str) -> list[Finding]:
    """Whether it is reached over https, the container's existence, what may be done in it beside reading and writing
    documents, soft delete, versioning (told by the blob `name`, where it exists). Changes nothing.

    Raises: StoreUnavailable.
    """
    found = [
        *tls.of_address(container.client().url),
        _container(container),
        *_listing(container, name),
        *_appending(container, name),
    ]
    return [*found, *_soft_delete(container), *_versioning(container, name)]


def _listing(container: Container, name: str) -> list[Finding]:
    """A poller lists before its first tick, to tell a checkpoint that was deleted from one that never was, and before
    it writes to the audit trail."""
    try:
        container.list(name)
    except StoreDenied as refused:
        told = "Listing is not permitted, without which no poller starts for the first time and no audit trail is kept."
        return [error("listing", f"{told} {refused.message}", refused.next_step)]
    return []


def _appending(container: Container, name: str) -> list[Finding]:
    """The audit trail is an append blob. On a condition that is never true: the answer tells whether it would have
    been permitted."""
    try:
        blob = container.client().get_blob_client(name)
        blob.append_block(b"\n", etag=_NO_SUCH_TAG, match_condition=MatchConditions.IfNotModified, **seconds(None))
    except FAILURES as answer:
        if status_of(answer) not in {401, 403}:  # the condition is not true, or there is no such append blob
            return []
        refused = container.translated(answer, name)
        told = "Appending is not permitted, without which no audit trail is kept."
        return [error("appending", f"{told} {refused.message}", refused.next_step)]
    return []


def _container(container: Container) -> Finding:
    where = container.locate("")
    try:
        container.client().get_container_properties(**seconds(None))
    except FAILURES as error:
        if code_of(error) == "ContainerNotFound":
            return ok("container", f"{where} does not exist yet: the first write creates it, where permitted")
        if status_of(error) in {401, 403}:
            return ok("container", f"{where}: its properties may not be read with this credential")
        raise container.translated(error, "") from None
    return ok("container", f"{where} exists")


def _soft_delete(container: Container) -> list[Finding]:
    """Asked where permitted: a SAS token of one container, or a role on it alone, may not read the account's."""
    maker = getattr(container.client(), "_get_blob_service_client", None)
    if maker is None:  # not of the SDK's public interface
        return []
    service: BlobServiceClient = maker()
    try:
        policy = service.get_service_properties(**seconds(None)).get("delete_retention_policy")
    except FAILURES:
        return []
    if policy is None or not policy.enabled:
        return [ok("soft_delete", "blob soft delete is off")]
    return [
        warn(
            "soft_delete",
            f"Blob soft delete keeps every overwritten state document for {policy.days} days, one per heartbeat.",
            "az storage account blob-service-properties update --account-name ACCOUNT --enable-delete-retention false"
            " (or keep state in an account of its own)",
        )
    ]


def _versioning(container: Container, name: str) -> list[Finding]:
    try:
        properties = container.client().get_blob_client(name).get_blob_properties(**seconds(None))
    except FAILURES:
        return []
    if not properties.version_id:
        return [ok("versioning", "blob versioning is off")]
    return [
        warn(
            "versioning",
            "Blob versioning keeps every version of the state document, one per heartbeat.",
            "az storage account blob-service-properties update --account-name ACCOUNT --enable-versioning false"
            " (or keep state in an account of its own, or add a lifecycle rule for versions)",
        )
    ]
