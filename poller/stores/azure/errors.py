"""What the SDKs raise, as this library's errors.

`translate` repeats no text of a response, which may quote a signed URL or the string that was signed, only the status,
the service's error code, and what to do.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from azure.core.exceptions import AzureError, ClientAuthenticationError

from poller.errors import StoreDenied, StoreError, StoreUnavailable, WriteConflict

# What a call into the SDK raises: its own errors, and others for an answer that is not the service's.
FAILURES = (AzureError, ValueError, LookupError, AttributeError, TypeError, RecursionError)

_TRANSIENT = {404, 408, 429}


@dataclass(frozen=True, slots=True)
class Advice:
    """What is special about a service's refusals.

    Attributes:
        service: what it is called. role: the step that grants what is needed. place: where state is, as `[state]`
            names it.
        denied: the step by error code of a refusal (https://learn.microsoft.com/rest/api/storageservices/
            common-rest-api-error-codes and the service's own page).
        conflicts: error codes that mean: not the version that was named.
        final: error codes of a 409 that does not pass with time.
        steps: the step by error code of a request that was not accepted; `""` where the answer has none.
    """

    service: str
    role: str
    place: str
    denied: Mapping[str, str]
    conflicts: frozenset[str]
    final: frozenset[str]
    steps: Mapping[str, str]


def denied(role: str, *, sas: str, resources: str, services: str) -> dict[str, str]:
    """The steps that are the same in every service. `sas`: permissions, `resources` and `services`: of a SAS token."""
    return {
        "AuthenticationFailed": "Check whether the account key or SAS token is current, and this machine's clock.",
        "AuthorizationFailure": "Check the account key, what the SAS token permits, and the account's network rules.",
        "AuthorizationPermissionMismatch": f"{role} A SAS token needs sp={sas}.",
        "AuthorizationProtocolMismatch": "The SAS token permits https only: use an https endpoint.",
        "AuthorizationResourceTypeMismatch": f"The SAS token must permit {resources}.",
        "AuthorizationServiceMismatch": f"The SAS token must permit {services}.",
        "AuthorizationSourceIPMismatch": "The SAS token does not permit this machine's address.",
        "InsufficientAccountPermissions": role,
        "InvalidAuthenticationInfo": "Check the credential that state.connection names.",
        "KeyBasedAuthenticationNotPermitted": "The account refuses keys: use an identity (NAME__accountName).",
        "NoAuthenticationInformation": "state.connection holds no key, SAS token or identity.",
        "AccountIsDisabled": "The account is disabled: see it in the portal.",
    }


def code_of(error: Exception) -> str:
    """The service's error code, such as `ContainerNotFound`; empty where there is none. Tables may say it in the body
    alone."""
    response: Any = getattr(error, "response", None)
    if response is None:
        return ""
    code = str(response.headers.get("x-ms-error-code") or "")
    if code or "json" not in str(response.headers.get("Content-Type")):
        return code
    try:
        return str(json.loads(response.text())["odata.error"]["code"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""


def status_of(error: Exception) -> int:
    """The answer's status; 0 where there was no complete answer."""
    response: Any = getattr(error, "response", None)
    status = 0 if response is None else int(response.status_code)
    # A body that broke off has the status of its beginning: it is not a complete answer.
    return status if status >= 300 else 0


def translate(
    error: AzureError, place: str, name: str, advice: Advice, *, creating: bool = False, reading: bool = False
) -> StoreError:
    """The error to raise for what the SDK raised. `place`: what `locate` says of the document `name`.

    `creating`: the write created, so that a 409 without a known code can only mean that it exists. `reading`: nothing
    was to be written.
    """
    refused = reason_of(error).startswith(os.strerror(errno.ECONNREFUSED))
    unsure = "" if reading or refused else "; a write may or may not have been applied"
    status = status_of(error)
    if status:
        return _answered(status, code_of(error), place, name, advice, creating=creating, unsure=unsure)
    if isinstance(error, ClientAuthenticationError):
        return StoreDenied(
            f"No credential is available for {place} ({type(error).__name__}).",
            document=name,
            next_step="Sign in (az login), or give this app a managed identity (NAME__clientId: a user-assigned one).",
        )
    return StoreUnavailable(
        f"No usable answer came for {place}: {reason_of(error)}.",
        document=name,
        next_step=f"Check that the endpoint is right and reachable{unsure}.",
        sent=not refused,
    )


def _answered(
    status: int, code: str, place: str, name: str, advice: Advice, *, creating: bool, unsure: str
) -> StoreError:
    said = f"{status} {code}".strip()
    if code in advice.denied or status in {401, 403}:
        step = advice.denied.get(code, f"{advice.role} Check the account's network rules, too.")
        return StoreDenied(f"Access to {place} was refused ({said}).", document=name, next_step=step)
    if (
        (status == 404 and code)
        or status == 412
        or code in advice.conflicts
        or (status == 409 and creating and not code)
    ):
        return WriteConflict(f"{place} is not the version this write was for ({said}).", document=name)
    # A 404 without a code comes from something in between.
    # 409 for the rest (ContainerBeingDeleted, AccountBeingCreated, PendingCopyOperation, ...) passes with time.
    if status in _TRANSIENT or status >= 500 or (status == 409 and code not in advice.final):
        return StoreUnavailable(
            f"No usable answer came for {place} ({said}).",
            document=name,
            next_step=f"The storage service is busy or failing{unsure}.",
        )
    step = advice.steps.get(code, f"Check state.connection and {advice.place}.")
    return StoreError(f"The request for {place} was not accepted ({said}).", document=name, next_step=step)


def no_such_service(place: str, name: str, advice: Advice) -> StoreUnavailable:
    """The error for an answer that is not the service's."""
    return StoreUnavailable(
        f"The answer for {place} is not a {advice.service}'s.",
        document=name,
        next_step="Check state.connection and any proxy on the way.",
    )


def not_created(refusal: StoreError, what: str, name: str, error: Exception) -> StoreError:
    """The refusal for a container or table that is not there and could not be made."""
    refusal.message = f"The {what} does not exist, and creating it failed. {refusal.message}"
    if status_of(error) in {401, 403}:
        refusal.next_step = f"Create the {what} {name} yourself, or permit it: {refusal.next_step}"
    return refusal


def reason_of(error: BaseException) -> str:
    """Why there was no answer, without any URL: the system's reason, and the exception's type."""
    seen: list[BaseException] = [error]
    for candidate in seen:
        if isinstance(candidate, OSError) and candidate.errno and candidate.strerror:
            return f"{candidate.strerror} ({type(error).__name__})"
        inner = (getattr(candidate, "inner_exception", None), getattr(candidate, "reason", None), *candidate.args)
        causes = (candidate.__cause__, candidate.__context__, *inner)
        seen += [cause for cause in causes if isinstance(cause, BaseException) and cause not in seen]
    return type(error).__name__
