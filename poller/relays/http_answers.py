"""What an endpoint's answer to the relay `http` says: its body, the events it names, when to come again."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from poller.errors import PollerError

if TYPE_CHECKING:
    import requests

FORM, IDENTIFIER = "batchItemFailures", "itemIdentifier"
"""How the body of an answer names events that failed, as a handler names rows."""
LARGEST_ANSWER = 1_000_000
"""Bytes of an answer's body that are looked at."""


class EndpointRefused(PollerError):
    """The endpoint answered that it does not take a request, and which row is at fault is not known."""


def read_body(answer: requests.Response, until: float) -> bytes:
    """An answer's body, and at most a byte more than is looked at. Raises: TimeoutError, and what requests raises."""
    parts, size = [], 0
    for part in answer.iter_content(65_536):
        parts.append(part)
        size += len(part)
        if size > LARGEST_ANSWER:
            break
        if time.monotonic() > until:
            raise TimeoutError("the answer arrived too slowly")
    return b"".join(parts)


def was_slow(failed: Exception) -> bool:
    """True if the endpoint was connected, and took longer than the timeout for the request or for its answer."""
    import requests
    from urllib3.exceptions import ProtocolError, ReadTimeoutError

    reason = failed.args[0] if failed.args else None
    if isinstance(reason, ProtocolError):
        return any(isinstance(one, TimeoutError) for one in reason.args)
    return isinstance(failed, requests.ReadTimeout | TimeoutError) or isinstance(reason, ReadTimeoutError)


def without_address(failed: Exception) -> str:
    """What an exception of requests says, without the address that its text quotes: of TLS, what is wrong with it."""
    reason: object = failed
    for _ in range(4):  # SSLError: MaxRetryError: SSLError: ssl.SSLError
        if isinstance(reason, ssl.SSLError):
            said = getattr(reason, "verify_message", "") or reason.reason or type(reason).__name__
            return f"TLS failed: {said}"
        reason = getattr(reason, "reason", None) or (reason.args[0] if getattr(reason, "args", ()) else None)  # type: ignore[attr-defined]
    return type(failed).__name__


def failed_events(answer: requests.Response, body: bytes) -> Sequence[tuple[str, str]]:
    """The ids of the events that the body of an answer names as failed, and why. Raises: Refused, if it begins as
    such a list and is none, or cannot be looked at as a whole."""
    if "json" not in answer.headers.get("Content-Type", "").lower():
        return []
    if len(body) > LARGEST_ANSWER:
        raise EndpointRefused("The endpoint answered with more JSON than can be looked at.")
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        if FORM.encode() in body:
            raise EndpointRefused(f"The endpoint's {FORM} cannot be read as JSON in UTF-8.") from None
        return []
    return _named(said[FORM]) if isinstance(said, dict) and FORM in said else []


def _named(listed: object) -> Sequence[tuple[str, str]]:
    """The events that are named, and why. Raises: Refused."""
    found = []
    for one in listed if isinstance(listed, list) else [None]:
        if not isinstance(one, dict) or not isinstance(id_ := one.get(IDENTIFIER), str):
            raise EndpointRefused(f'The endpoint\'s {FORM} is not a list of {{"{IDENTIFIER}": "..."}}.')
        why = one.get("error")
        found.append((id_, why if isinstance(why, str) and why else f"named in {FORM}"))
    return found


def wanted_pause(headers: Mapping[str, str]) -> float | None:
    """The seconds of `Retry-After`, None if it says nothing that can be read."""
    said = headers.get("Retry-After", "").strip()
    if said.isascii() and said.isdigit():
        return float(said[:12])
    with suppress(ValueError, TypeError, OverflowError):
        now = datetime.now(UTC)
        with suppress(ValueError, TypeError, OverflowError):
            now = parsedate_to_datetime(headers.get("Date", ""))
        return (parsedate_to_datetime(said) - now).total_seconds()
    return None
