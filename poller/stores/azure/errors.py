"""What the SDKs raise, as this library's errors.

`translate` repeats no text of a response, which may quote a signed URL or the string that was signed, only the status,
the service's error code, and what to do.
"""

from __future__ import annotations

import json
from typing import Any

from azure.core.exceptions import AzureError, ClientAuthenticationError

from poller.errors import StoreDenied, StoreError, WriteConflict
from poller.stores.azure.advice import MEANINGS, Advice
from poller.stores.refusals import by_status, no_answer, no_credential, refused

# What a call into the SDK raises: its own errors, and others for an answer that is not the service's.
FAILURES = (AzureError, ValueError, LookupError, AttributeError, TypeError, RecursionError)


def code_of(error: Exception) -> str:
    """The service's error code, such as `ContainerNotFound`; empty if there is none. Tables may say it in the body
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
    """The answer's status; 0 if there was no complete answer."""
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
    status, code = status_of(error), code_of(error)
    if not status:
        if isinstance(error, ClientAuthenticationError):
            return no_credential(advice, place, name, type(error).__name__)
        return no_answer(error, place, name, reading=reading)
    said = f"{status} {code}".strip()
    if code in MEANINGS:
        return refused(*MEANINGS[code], place, name, said, sent=False)  # it is sure of what was written: nothing
    if step := advice.access(code):
        return refused(StoreDenied, step, place, name, said)
    if advice.tags and ((status == 404 and code) or status == 412 or (status == 409 and creating and not code)):
        return refused(WriteConflict, "", place, name, said)
    return by_status(advice, status, place, name, said, known=bool(code), reading=reading)


def not_created(refusal: StoreError, what: str, name: str, error: Exception) -> StoreError:
    """The refusal for a container or table that is not there and could not be made."""
    refusal.message = f"The {what} does not exist, and creating it failed. {refusal.message}"
    if status_of(error) in {401, 403}:
        refusal.next_step = f"Create the {what} {name} yourself, or permit it: {refusal.next_step}"
    return refusal
