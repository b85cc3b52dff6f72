"""What the answers of a store's service mean: one table by HTTP status, and one sentence for each error.

A store looks for its service's own codes first; this is for what has none of them. No text of an answer is repeated,
which may quote a signed address or the string that was signed: only the status, the code, and what to do.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass

from poller.errors import StoreDenied, StoreError, StoreUnavailable, WriteConflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How a service is called, and what to check when it refuses.

    Attributes:
        whose: answers, such as "a blob service's". address: the key of the configuration that leads to it.
        check: what else may be wrong. role: the step that grants what is needed. sign_in: the step without a
        credential.
    """

    whose: str
    address: str
    check: str
    role: str
    sign_in: str = "Sign in (az login), or give this app a managed identity (NAME__clientId: a user-assigned one)."


BY_STATUS: Mapping[int, type[StoreError]] = {
    401: StoreDenied,
    403: StoreDenied,
    404: StoreUnavailable,  # of something in between: the service's own has a code
    408: StoreUnavailable,
    409: StoreUnavailable,  # of something that is being made or deleted, which passes
    410: StoreUnavailable,
    412: WriteConflict,
    429: StoreUnavailable,
    449: StoreUnavailable,
}
"""For others: an outage from 500 on, else a request that was not accepted."""
_SENTENCES: Mapping[type[StoreError], str] = {
    StoreDenied: "Access to {place} was refused ({said}).",
    StoreError: "The request for {place} was not accepted ({said}).",
    StoreUnavailable: "No usable answer came for {place} ({said}).",
    WriteConflict: "{place} is not the version this write was for ({said}).",
}


def refused(kind: type[StoreError], step: str, place: str, name: str, said: str, *, sent: bool = True) -> StoreError:
    """The error of a kind. `place`: what `locate` says of the document `name`; `said`: status and code; `sent`: a write
    may have been applied."""
    message = _SENTENCES[kind].format(place=place, said=said)
    if kind is StoreUnavailable:
        return StoreUnavailable(message, document=name, next_step=step, sent=sent)
    return kind(message, document=name, next_step=step)


def by_status(
    service: Service, status: int, place: str, name: str, said: str, *, known: bool, reading: bool
) -> StoreError:
    """The error for a status. `known`: the answer is the service's own; `reading`: nothing was to be written."""
    kind = BY_STATUS.get(status, StoreUnavailable if status >= 500 else StoreError)
    if kind is WriteConflict and (reading or not known):
        kind = StoreError
    step = service.check if known else f"The answer is not {service.whose}: check {service.address} and any proxy."
    if kind is StoreDenied:
        step = service.role
    elif kind is StoreUnavailable:
        step = f"The service is busy or failing{unsure(reading)}."
    return refused(kind, "" if kind is WriteConflict else step, place, name, said)


def unsure(reading: bool) -> str:
    """What a next step says of a write whose answer is not known."""
    return "" if reading else "; a write may or may not have been applied"


def no_answer(error: Exception, place: str, name: str, *, reading: bool) -> StoreUnavailable:
    """The error where no answer came, or no whole one."""
    cause = _system_error(error)
    at_once = cause is not None and cause.errno == errno.ECONNREFUSED
    return StoreUnavailable(
        f"No usable answer came for {place}: {reason_of(error)}.",
        document=name,
        next_step=f"Check that the endpoint is right and reachable{unsure(reading or at_once)}.",
        sent=not at_once,
    )


def no_credential(service: Service, place: str, name: str, said: str) -> StoreDenied:
    """The error where there is nothing to sign in with. `said`: why."""
    return StoreDenied(f"No credential is available for {place} ({said}).", document=name, next_step=service.sign_in)


def not_the_services(service: Service, place: str, name: str) -> StoreUnavailable:
    """The error for an answer that is not the service's."""
    return StoreUnavailable(
        f"The answer for {place} is not {service.whose}.",
        document=name,
        next_step=f"Check {service.address} and any proxy on the way.",
    )


def reason_of(error: BaseException) -> str:
    """Why there was no answer, without any address: the system's reason, and the exception's type."""
    cause = _system_error(error)
    return type(error).__name__ if cause is None else f"{cause.strerror} ({type(error).__name__})"


def _system_error(error: BaseException) -> OSError | None:
    """The first of the system's own among what led to an error."""
    seen: list[BaseException] = [error]
    for one in seen:
        if isinstance(one, OSError) and one.errno and one.strerror:
            return one
        inner = (getattr(one, "inner_exception", None), getattr(one, "reason", None), *one.args)
        causes = (one.__cause__, one.__context__, *inner)
        seen += [cause for cause in causes if isinstance(cause, BaseException) and cause not in seen]
    return None
