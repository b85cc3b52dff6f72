"""What can go wrong with one request: a `Fault` says what happens at the server and what the client gets.

The two sides are independent, because that is what makes writes ambiguous: a write may land never, once,
twice or later, and whichever it was the client may get the answer, an error, or nothing. The functions below
name the combinations that the protocol lists; any other can be put together with `Fault(...)`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

Upstream = Literal["never", "once", "twice", "late"]
Answer = Literal["real", "reset", "close", "silence", "error", "cut", "dribble"]
Hold = Literal["before", "after"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One misfortune of one request. Times in seconds.

    - `upstream`: how often the server gets the request; `late`: after `seconds`, or when `tag` is released.
    - `answer`: what the client gets. `real`: the server's answer; `reset`: a RST; `close`: an orderly end
      without a byte; `silence`: nothing, until the client gives up; `error`: `status` with the storage error
      `code`; `cut`: the real head, then only `keep` of the body (0 to 1) before the end; `dribble`: one byte
      every `seconds`.
    - `hold`: the request waits before it is forwarded, or its answer before it is given: for `seconds`, or
      until `tag` is released if `seconds` is None.
    - `date_offset`: this one answer's `Date` is moved. `without`: headers that the answer loses.
    """

    name: str
    upstream: Upstream = "once"
    answer: Answer = "real"
    hold: Hold | None = None
    seconds: float | None = None
    tag: str = ""
    status: int = 0
    code: str = ""
    retry_after: int | None = None
    keep: float = 0.5
    second_answer: bool = False
    date_offset: float = 0.0
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.upstream in ("never", "late") and self.answer in ("real", "cut", "dribble"):
            raise ValueError(f"{self.name}: there is no real answer to give when the server has not got the request")
        if self.upstream == "late" and self.hold is not None:
            raise ValueError(f"{self.name}: a late write is not held as well")
        if (self.answer == "error") != bool(self.status):
            raise ValueError(f"{self.name}: a status belongs to answer='error', and to nothing else")
        if self.answer == "dribble" and self.seconds is None:
            raise ValueError(f"{self.name}: a dribbling answer needs the seconds between two bytes")

    def to_dict(self) -> dict[str, Any]:
        """The fault as JSON can carry it; defaults left out."""
        default = {one.name: one.default for one in fields(self)}
        return {key: value for key, value in asdict(self).items() if value != default[key]}

    def __repr__(self) -> str:
        facts = ", ".join(f"{key}={value!r}" for key, value in self.to_dict().items())
        return f"Fault({facts})"


def reset_before() -> Fault:
    """The connection is reset; the server never gets the request."""
    return Fault(name="reset_before", upstream="never", answer="reset")


def reset_after() -> Fault:
    """The server applies the request, then the connection is reset."""
    return Fault(name="reset_after", answer="reset")


def drop_before() -> Fault:
    """The connection ends in order; the server never gets the request."""
    return Fault(name="drop_before", upstream="never", answer="close")


def drop_after() -> Fault:
    """The answer dropped: the server applies the request, then the connection ends in order without a byte."""
    return Fault(name="drop_after", answer="close")


def black_hole() -> Fault:
    """The request is taken and never answered nor applied: the client runs into its read timeout."""
    return Fault(name="black_hole", upstream="never", answer="silence")


def silence_after() -> Fault:
    """The server applies the request; the client runs into its read timeout."""
    return Fault(name="silence_after", answer="silence")


def error_before(status: int = 500, *, retry_after: int | None = None) -> Fault:
    """The client gets this status (408, 429, 401, 403, 5xx) and the server never gets the request."""
    return _error("error_before", "never", status, retry_after)


def error_after(status: int = 500, *, retry_after: int | None = None) -> Fault:
    """The client gets this status although the server has applied the request."""
    return _error("error_after", "once", status, retry_after)


def late(tag: str = "", *, seconds: float | None = None, answer: Answer = "silence", status: int = 500) -> Fault:
    """The client sees a failure now (`silence`, `reset`, `close`, or `error` with `status`); the request
    reaches the server after `seconds`, or with None when `proxy.release(tag)` is called."""
    error = status if answer == "error" else 0
    return Fault(name="late", upstream="late", answer=answer, seconds=seconds, tag=tag, status=error, code=_code(error))


def duplicate(*, second_answer: bool = False) -> Fault:
    """The server gets the request twice in a row; the client gets the first answer, or the second (a 412 for
    a CAS).
    """
    return Fault(name="duplicate", upstream="twice", second_answer=second_answer)


def truncated(keep: float = 0.5) -> Fault:
    """The answer's body ends before its Content-Length; an answer without a body ends inside its headers, which
    http.client takes for their regular end: the client then has a status, and perhaps no ETag or half of one.
    """
    return Fault(name="truncated", answer="cut", keep=keep)


def dribble(seconds: float, tag: str = "") -> Fault:
    """The answer comes one byte every `seconds`, so that no single receive runs into a timeout; all at once
    on release.
    """
    return Fault(name="dribble", answer="dribble", seconds=seconds, tag=tag)


def hold_before(tag: str = "", *, seconds: float | None = None) -> Fault:
    """The request is forwarded after `seconds`, or with None on `proxy.release(tag)`; its answer is the real
    one.
    """
    return Fault(name="hold_before", hold="before", tag=tag, seconds=seconds)


def hold_after(tag: str = "", *, seconds: float | None = None) -> Fault:
    """The server applies the request at once; its real answer comes after `seconds`, or on
    `proxy.release(tag)`.
    """
    return Fault(name="hold_after", hold="after", tag=tag, seconds=seconds)


def date_off(seconds: float) -> Fault:
    """One front end of the service has another clock: this answer's `Date` is moved, its `Last-Modified` is
    not.
    """
    return Fault(name="date_off", date_offset=seconds)


def without(*headers: str) -> Fault:
    """The answer lacks these headers, for instance `Date`."""
    return Fault(name="without", without=headers)


def conflict() -> Fault:
    """S3's answer to a conditional write while another to the same object is under way: nothing is written."""
    return Fault(name="conflict", upstream="never", answer="error", status=409, code="ConditionalRequestConflict")


_CODES = {
    401: "NoAuthenticationInformation",
    403: "AuthorizationFailure",
    408: "RequestTimeout",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServerBusy",
}


def _code(status: int) -> str:
    return _CODES.get(status, "InternalError") if status else ""


def _error(name: str, upstream: Upstream, status: int, retry_after: int | None) -> Fault:
    return Fault(
        name=name,
        upstream=upstream,
        answer="error",
        status=status,
        code=_code(status),
        retry_after=retry_after,
    )
