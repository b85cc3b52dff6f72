"""A request and an answer, of a socket of ours or of the Functions host."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote_plus

_CODE = "code"
"""The query's field in which the Functions host takes a key."""

FAULT = "this is a fault in poller; its log says more"
"""What is said of an exception that nothing foresees."""

ALWAYS = (
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)
"""Headers of every answer. None of them allows another origin to read it (CORS)."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked.

    Attributes:
        method: as sent. path: as sent, before the `?`; nothing of it is decoded. query: behind the `?`, without the
            field `code`, in which the Functions host takes a key: nothing below this line ever sees it.
        headers: names and values, in order; a name may come twice. body_length: in bytes, as it is declared. body: what
            came of it. remote: the caller's address, if it is known; nothing that a header claims.
    """

    method: str
    path: str
    query: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body_length: int = 0
    remote: str = ""
    body: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        """Strip the key from the query."""
        object.__setattr__(self, "query", "&".join(p for p in self.query.split("&") if _name(p) != _CODE))

    def with_body(self, body: bytes) -> Request:
        """The same request, with its body."""
        return replace(self, body=body, body_length=len(body))

    def values(self, name: str) -> list[str]:
        """The values of the headers of this name, which is given in lower case."""
        return [value for key, value in self.headers if key.lower() == name]


def _name(part: str) -> str:
    return unquote_plus(part.partition("=")[0]).strip().lower()


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered.

    Attributes:
        status: of HTTP. headers: all but those of the connection and `Content-Length`. body: empty, or JSON in ASCII.
        length: of the body that a GET is answered with, also where this answers a HEAD and has none.
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ALWAYS
    body: bytes = b""
    length: int = 0

    def without_body(self) -> Answer:
        """The answer to a HEAD."""
        return replace(self, body=b"")


def answer(status: int, data: Mapping[str, Any] | None = None, headers: Iterable[tuple[str, str]] = ()) -> Answer:
    """An answer, with a JSON document where there is one."""
    return answer_with(status, b"" if data is None else in_json(data), headers)


def answer_with(status: int, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> Answer:
    """An answer with a document that is JSON already, or with none."""
    kind = (("Content-Type", "application/json"),) if body else ()
    return Answer(status, (*kind, *ALWAYS, *headers), body, len(body))


def refusal(status: int, why: str, headers: Iterable[tuple[str, str]] = ()) -> Answer:
    """An answer that says no, in words of ours: nothing of the request is repeated."""
    return answer(status, {"error": why}, headers)


def in_json(data: Mapping[str, Any]) -> bytes:
    """JSON in ASCII: what could steer a terminal or end a line is escaped."""
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("\x7f", "\\u007f").encode("ascii")
