"""The doctor's storage side: the container, and settings of the account that keep a copy of every write."""

from __future__ import annotations

from azure.storage.blob import BlobServiceClient

from poller.model.finding import Finding, ok, warn
from poller.stores._blob_container import FAILURES, Container, seconds
from poller.stores._blob_errors import code_of, status_of


def examine(container: Container, name: str) -> list[Finding]:
    """The container's existence, soft delete, versioning (told by the blob `name`, where it exists). Reads only.

    Raises: StoreUnavailable.
    """
    found = [_container(container)]
    return [*found, *_soft_delete(container), *_versioning(container, name)]


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
