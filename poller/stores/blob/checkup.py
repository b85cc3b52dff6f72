"""The doctor's storage side: the container, and settings of the account that keep copies of every write."""

from __future__ import annotations

from azure.core import MatchConditions
from azure.storage.blob import BlobServiceClient

from poller import once, tls
from poller.errors import StoreDenied
from poller.model.finding import Finding, error, ok, warn
from poller.stores.azure.errors import FAILURES, code_of, status_of
from poller.stores.azure.transport import seconds
from poller.stores.blob.container import Container

_NO_SUCH_TAG = '"0x0"'
"""No version of any blob has it: a request under this condition is never carried out."""


def examine(container: Container, name: str, *, exists: bool = True) -> list[Finding]:
    """Checks https, the container's existence, the right to list and append in it, soft delete, a hierarchical
    namespace, and versioning (by the blob `name`, if it `exists`). Changes nothing; what is true of all blobs is
    asked once per command.

    Raises: StoreUnavailable.
    """
    return [
        *tls.of_address(container.client().url),
        once.ask((container, "there"), lambda: _container(container)),
        *once.ask((container, "listing"), lambda: _listing(container, name), keep=_is_fine),
        *once.ask((container, "appending"), lambda: _appending(container, name), keep=_is_fine),
        *once.ask((container, "soft_delete"), lambda: _soft_delete(container)),
        *once.ask((container, "namespace"), lambda: _namespace(container)),
        *(once.ask((container, "versioning"), lambda: _versioning(container, name), keep=bool) if exists else []),
    ]


def _is_fine(found: list[Finding]) -> bool:
    """A refusal names the blob."""
    return not found


def _listing(container: Container, name: str) -> list[Finding]:
    """A poller lists before its first tick, to recognise a checkpoint that was deleted, and before it writes to the
    audit trail."""
    try:
        container.list(name)
    except StoreDenied as refused:
        message = "Listing is not permitted: no poller can start for the first time, and no audit trail is kept."
        return [error("listing", f"{message} {refused.message}", refused.next_step)]
    return []


def _appending(container: Container, name: str) -> list[Finding]:
    """The audit trail is an append blob. Tried under a condition that is never true: the answer shows whether it would
    have been permitted."""
    try:
        blob = container.blob(name)
        blob.append_block(b"\n", etag=_NO_SUCH_TAG, match_condition=MatchConditions.IfNotModified, **seconds(None))
    except FAILURES as answer:
        if status_of(answer) not in {401, 403}:  # the condition is not true, or there is no such append blob
            return []
        refused = container.translated(answer, name)
        message = "Appending is not permitted: no audit trail is kept."
        return [error("appending", f"{message} {refused.message}", refused.next_step)]
    return []


def _container(container: Container) -> Finding:
    where = container.locate("")
    try:
        container.client().get_container_properties(**seconds(None))
    except FAILURES as error:
        if code_of(error) == "ContainerNotFound":
            return ok("container", f"{where} does not exist yet: the first write creates it, if permitted")
        if status_of(error) in {401, 403}:
            return ok("container", f"{where}: its properties may not be read with this credential")
        raise container.translated(error, "") from None
    return ok("container", f"{where} exists")


def _soft_delete(container: Container) -> list[Finding]:
    """Read where permitted: a SAS token of one container, or a role on it, may not read the account's properties."""
    maker = getattr(container.client(), "_get_blob_service_client", None)
    if maker is None:  # not part of the SDK's public interface
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
            f"Blob soft delete keeps every overwritten state document for {policy.days} days, one per heartbeat. Each "
            "LIST reads past what is kept: it takes longer, and needs more requests.",
            "az storage account blob-service-properties update --account-name ACCOUNT --enable-delete-retention false"
            " (or keep state in a separate account)",
        )
    ]


def _namespace(container: Container) -> list[Finding]:
    """Read where permitted, as `_soft_delete`."""
    try:
        account = container.client().get_account_information(**seconds(None))
    except FAILURES:
        return []
    if not account.get("is_hns_enabled"):
        return [ok("namespace", "the account has no hierarchical namespace")]
    return [
        warn(
            "namespace",
            "The account has a hierarchical namespace (Data Lake Storage), in which poller is not tested: directories "
            "are listed among the blobs, and one in the way of a document's name stops its poller.",
            "Keep state in an account without one: az storage account create --kind StorageV2 "
            "--enable-hierarchical-namespace false ...",
        )
    ]


def _versioning(container: Container, name: str) -> list[Finding]:
    try:
        properties = container.blob(name).get_blob_properties(**seconds(None))
    except FAILURES:
        return []
    if not properties.version_id:
        return [ok("versioning", "blob versioning is off")]
    return [
        warn(
            "versioning",
            "Blob versioning keeps every version of the state document, one per heartbeat.",
            "az storage account blob-service-properties update --account-name ACCOUNT --enable-versioning false"
            " (or keep state in a separate account, or add a lifecycle rule for versions)",
        )
    ]
