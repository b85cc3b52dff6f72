"""What the SDK raises, as this library's errors.

`translate` repeats no text of an answer, only the status, the service's sub-status, and what to do. Codes:
https://learn.microsoft.com/rest/api/cosmos-db/http-status-codes-for-cosmosdb
"""

from __future__ import annotations

from collections.abc import Mapping

from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.cosmos.exceptions import CosmosHttpResponseError

from poller.errors import StoreDenied, StoreError, StoreUnavailable, WriteConflict
from poller.stores.cosmos.items import too_large
from poller.stores.refusals import Service, by_status, no_answer, no_credential, not_the_services, refused

FAILURES = (AzureError, ValueError, LookupError, AttributeError, TypeError, RecursionError)
"""What a call into the SDK raises: its own errors, and others for an answer that is not the service's."""
_NO_CONTAINER = 1003
SERVICE = Service(
    whose="Azure Cosmos DB's",
    address="state.connection",
    check="Check state.connection, state.database and state.container; the container's partition key must be /app.",
    role="Check the account key; an identity needs the role 'Cosmos DB Built-in Data Contributor' (az cosmosdb sql "
    "role assignment create), and this machine's address the account's firewall.",
)
_NOTHING_WRITTEN = {
    429: "The account's throughput is used up.",
    449: "The service is busy or failing.",
}
_BY_SUB_STATUS: Mapping[tuple[int, int], tuple[type[StoreError], str]] = {
    (403, 3): (
        StoreUnavailable,
        "The region takes no writes: the account fails over, or the address is not its own but a region's.",
    ),
    (403, 1014): (StoreDenied, "The partition of this app is full (20 GB): delete old items, lines of logs above all."),
}


def status_of(error: Exception) -> int:
    """The answer's status; 0 if there was none of the service."""
    if not isinstance(error, CosmosHttpResponseError):
        return 0
    return int(error.status_code or 0)


def is_cosmos(headers: Mapping[str, str]) -> bool:
    """True if an answer has a header that each of the service's has, and none of something in between."""
    return any(name.lower() == "x-ms-activity-id" for name in headers)


def is_the_services(error: Exception) -> bool:
    """The same of the answer that an error is about."""
    return is_cosmos(getattr(error, "headers", None) or {})


def is_gone(error: Exception) -> bool:
    """True if the service says that there is no such item. With a sub-status a 404 says something else: a replica that
    is behind the session (1002), or a container that does not exist (1003) or is being made (1013)."""
    return status_of(error) == 404 and is_the_services(error) and not sub_status_of(error)


def sub_status_of(error: Exception) -> int:
    """The service's sub-status; 0 if it gives none."""
    found = getattr(error, "sub_status", None)
    return found if isinstance(found, int) else 0


def no_container(place: str, name: str) -> StoreDenied:
    """The error where the database or the container does not exist."""
    return StoreDenied(
        f"There is no such database or container for {place}.",
        document=name,
        next_step="Correct state.database and state.container, or create them: az cosmosdb sql container create "
        "--partition-key-path /app ...",
    )


def translate(error: Exception, place: str, name: str, *, creating: bool = False, reading: bool = False) -> StoreError:
    """The error to raise for what the SDK raised. `place`: what `locate` says of the document `name`.

    `creating`: the write created, so that a 409 means that it exists. `reading`: nothing was to be written.
    """
    if status_of(error):
        return _answered(error, place, name, creating=creating, reading=reading)
    if isinstance(error, ClientAuthenticationError):
        return no_credential(SERVICE, place, name, type(error).__name__)
    if not isinstance(error, AzureError) or getattr(error, "status_code", None) is not None:
        return not_the_services(SERVICE, place, name)
    return no_answer(error, place, name, reading=reading)


def _answered(error: Exception, place: str, name: str, *, creating: bool, reading: bool) -> StoreError:
    status, sub, own = status_of(error), sub_status_of(error), is_the_services(error)
    said = f"{status}/{sub}" if sub else str(status)
    if not own:
        return by_status(SERVICE, status, place, name, said, known=False, reading=reading)
    if not reading and (is_gone(error) or (status == 409 and creating)):
        return refused(WriteConflict, "", place, name, said)
    if status == 404 and sub == _NO_CONTAINER:
        return no_container(place, name)
    if status == 413:
        return too_large(place, name, said)
    if status in _NOTHING_WRITTEN:
        return refused(StoreUnavailable, _NOTHING_WRITTEN[status], place, name, said, sent=False)
    if (status, sub) in _BY_SUB_STATUS:
        return refused(*_BY_SUB_STATUS[status, sub], place, name, said)
    return by_status(SERVICE, status, place, name, said, known=True, reading=reading)
