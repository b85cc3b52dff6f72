"""What the SDKs raise, as this library's errors.

`translate` repeats no text of a response, which may quote a signed URL or the string that was signed, only the status,
the service's error code, and what to do.
"""

from __future__ import annotations

import errno
import json
import os
from typing import Any

from azure.core.exceptions import AzureError, ClientAuthenticationError

from poller.errors import StoreDenied, StoreError, StoreUnavailable, WriteConflict
from poller.stores.azure.advice import MEANINGS, Advice

# What a call into the SDK raises: its own errors, and others for an answer that is not the service's.
FAILURES = (AzureError, ValueError, LookupError, AttributeError, TypeError, RecursionError)

_TRANSIENT = {404, 408, 429}


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
    kind, step = MEANINGS.get(code) or _by_status(status, code, advice, creating=creating, unsure=unsure)
    if kind is StoreUnavailable:
        sent = code not in MEANINGS  # such an answer is sure of what was written: nothing
        return StoreUnavailable(
            f"No usable answer came for {place} ({said}).", document=name, next_step=step, sent=sent
        )
    return kind(_SENTENCES[kind].format(place=place, said=said), document=name, next_step=step)


_SENTENCES: dict[type[StoreError], str] = {
    StoreDenied: "Access to {place} was refused ({said}).",
    WriteConflict: "{place} is not the version this write was for ({said}).",
    StoreError: "The request for {place} was not accepted ({said}).",
}


def _by_status(status: int, code: str, advice: Advice, *, creating: bool, unsure: str) -> tuple[type[StoreError], str]:
    step = advice.access(code)
    if step is not None or status in {401, 403}:
        return StoreDenied, step or f"{advice.role} Check the account's network rules, too."
    if advice.tags and ((status == 404 and code) or status == 412 or (status == 409 and creating and not code)):
        return WriteConflict, ""
    # A 404 without a code comes from something in between.
    # 409 for the rest (ContainerBeingDeleted, AccountBeingCreated, PendingCopyOperation, ...) passes with time.
    if status in _TRANSIENT or status >= 500 or status == 409:
        return StoreUnavailable, f"The storage service is busy or failing{unsure}."
    if not code:
        return StoreError, f"The answer is not a {advice.service}'s: check state.connection and any proxy on the way."
    return StoreError, f"Check state.connection and {advice.place}."


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
