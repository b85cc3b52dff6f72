"""HTTP's answers and the SDK's exceptions, translated once, at the edge, into this library's errors.

Nothing of a response's own text is passed on: it may quote a signed URL or the string that was signed. What is said is
the status, the service's error code, and where that leaves the reader.
"""

from __future__ import annotations

import errno
import os
from typing import Any

from azure.core.exceptions import AzureError, ClientAuthenticationError

from poller.errors import StoreDenied, StoreError, StoreUnavailable, WriteConflict

_ROLE = (
    "Grant this identity the role 'Storage Blob Data Contributor' on the container or account; "
    "it takes minutes to apply."
)

# What to do about a refusal, by the service's error code.
# https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes and .../common-rest-api-error-codes
_DENIED = {
    "AuthenticationFailed": "Check whether the account key or SAS token is current, and this machine's clock.",
    "AuthorizationFailure": "Check the account key, what the SAS token permits, and the account's network rules.",
    "AuthorizationPermissionMismatch": f"{_ROLE} A SAS token needs sp=racwl.",
    "AuthorizationProtocolMismatch": "The SAS token permits https only: use an https endpoint.",
    "AuthorizationResourceTypeMismatch": "The SAS token must permit containers and objects (srt=co).",
    "AuthorizationServiceMismatch": "The SAS token must permit the blob service (ss=b).",
    "AuthorizationSourceIPMismatch": "The SAS token does not permit this machine's address.",
    "InsufficientAccountPermissions": _ROLE,
    "InvalidAuthenticationInfo": "Check the credential that state.connection names.",
    "KeyBasedAuthenticationNotPermitted": "The account refuses keys: use an identity (NAME__accountName).",
    "NoAuthenticationInformation": "state.connection holds no key, SAS token or identity.",
    "BlobArchived": "The blob is in the archive tier: rehydrate it.",
    "BlobImmutableDueToPolicy": "An immutability policy or legal hold covers the container: state needs one without.",
    "LeaseIdMissing": "Somebody holds a blob lease on it, which is not of our making: az storage blob lease break.",
    "ContainerDisabled": "The container was disabled by the service: see its account in the portal.",
    "AccountIsDisabled": "The account is disabled: see it in the portal.",
}
_CONFLICTS = {"BlobAlreadyExists", "ConditionNotMet", "TargetConditionNotMet", "BlobOverwritten"}
_TRANSIENT = {404, 408, 429}


def code_of(error: Exception) -> str:
    """The service's error code, such as `ContainerNotFound`; empty where there is none."""
    response: Any = getattr(error, "response", None)
    return "" if response is None else str(response.headers.get("x-ms-error-code") or "")


def status_of(error: Exception) -> int:
    """The answer's status; 0 where there was no complete answer."""
    response: Any = getattr(error, "response", None)
    status = 0 if response is None else int(response.status_code)
    # A body that broke off carries the status of its own beginning: that is no answer.
    return status if status >= 300 else 0


def translate(error: AzureError, place: str, name: str, *, creating: bool = False, reading: bool = False) -> StoreError:
    """The error to raise for what the SDK raised. `place`: what `locate` says of the document `name`.

    `creating`: the write had If-None-Match, so that a 409 without a code we know can only mean that it exists.
    `reading`: nothing was to be written.
    """
    refused = _reason(error).startswith(os.strerror(errno.ECONNREFUSED))
    unsure = "" if reading or refused else "; a write may or may not have been applied"
    status = status_of(error)
    if status:
        return _answered(status, code_of(error), place, name, creating=creating, unsure=unsure)
    if isinstance(error, ClientAuthenticationError):
        return StoreDenied(
            f"No credential could be had for {place} ({type(error).__name__}).",
            document=name,
            next_step="Sign in (az login), or give this app a managed identity (NAME__clientId: a user-assigned one).",
        )
    return StoreUnavailable(
        f"No usable answer came for {place}: {_reason(error)}.",
        document=name,
        next_step=f"Check that the endpoint is right and reachable{unsure}.",
        sent=not refused,
    )


def _answered(status: int, code: str, place: str, name: str, *, creating: bool, unsure: str) -> StoreError:
    said = f"{status} {code}".strip()
    if code in _DENIED or status in {401, 403}:
        step = _DENIED.get(code, f"{_ROLE} Check the account's network rules, too.")
        return StoreDenied(f"Access to {place} was refused ({said}).", document=name, next_step=step)
    if (status == 404 and code) or status == 412 or code in _CONFLICTS or (status == 409 and creating and not code):
        return WriteConflict(f"{place} is not the version this write was for ({said}).", document=name)
    # A 404 without a code comes from something in between.
    # 409 for the rest (ContainerBeingDeleted, AccountBeingCreated, PendingCopyOperation, ...) passes with time.
    if status in _TRANSIENT or status >= 500 or (status == 409 and code != "InvalidBlobType"):
        return StoreUnavailable(
            f"No usable answer came for {place} ({said}).",
            document=name,
            next_step=f"The storage service is busy or failing{unsure}.",
        )
    steps = {
        "": "What answers does not answer as a blob service does: check state.connection and any proxy on the way.",
        "InvalidHeaderValue": "If this is Azurite, start it with --skipApiVersionCheck or update it.",
        "InvalidBlobType": "Something else stands under this name: move it away.",
    }
    step = steps.get(code, "Check state.connection and state.container.")
    return StoreError(f"The request for {place} was not accepted ({said}).", document=name, next_step=step)


def _reason(error: BaseException) -> str:
    """Why there was no answer, in words that cannot hold a URL: the system's own reason, and the exception's type."""
    seen: list[BaseException] = [error]
    for candidate in seen:
        if isinstance(candidate, OSError) and candidate.errno and candidate.strerror:
            return f"{candidate.strerror} ({type(error).__name__})"
        inner = (getattr(candidate, "inner_exception", None), getattr(candidate, "reason", None), *candidate.args)
        causes = (candidate.__cause__, candidate.__context__, *inner)
        seen += [cause for cause in causes if isinstance(cause, BaseException) and cause not in seen]
    return type(error).__name__
