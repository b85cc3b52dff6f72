"""The head of a request, from bytes. It accepts what HTTP/1.1's grammar allows and clients send, and nothing else.

`http.server` accepts more: lines that end in a bare CR or LF, folded headers, HTTP/0.9, 64 kB a line. Where two parsers
may disagree about a request, this one refuses it.
"""

from __future__ import annotations

import re

from poller.http.endpoints import LARGEST_REQUEST
from poller.http.messages import Request

END = b"\r\n\r\n"
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_LINE = re.compile(rb"(?P<method>[A-Z]{1,20}) (?P<target>/[\x21-\x7e]*) HTTP/(?P<version>[0-9]\.[0-9])")
_HEADER = re.compile(
    rb"(?P<name>" + _TOKEN + rb"{1,100}):[ \t]*(?P<value>(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?)[ \t]*"
)
_LENGTH = re.compile(r"[0-9]{1,15}")


class Malformed(Exception):
    """A request that is refused as it is.

    Attributes:
        status: of the answer. why: in words of ours.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


def parse(head: bytes, remote: str = "") -> Request:
    """The request of a head, which ends in an empty line. Raises: Malformed."""
    first, *rest = head.removesuffix(END).split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise Malformed(400, "the request line is malformed")
    if line["version"] not in (b"1.1", b"1.0"):
        raise Malformed(505, "HTTP/1.1 is needed")
    headers = tuple(map(_header, rest))
    path, _, query = line["target"].decode("ascii").partition("?")
    request = Request(line["method"].decode("ascii"), path, query, headers, remote=remote)
    length = _length(request)
    if len(head) + length > LARGEST_REQUEST:
        raise Malformed(413, "the request is too large")
    return Request(request.method, path, request.query, headers, length, remote)


def _header(line: bytes) -> tuple[str, str]:
    found = _HEADER.fullmatch(line)
    if found is None:
        raise Malformed(400, "a header is malformed")
    return found["name"].decode("ascii").lower(), found["value"].decode("ascii")


def _length(request: Request) -> int:
    """The body's length. Raises: Malformed."""
    lengths = request.values("content-length")
    if request.values("transfer-encoding"):
        raise Malformed(400 if lengths else 411, "the length of the body is needed, and no Transfer-Encoding")
    if request.values("expect"):
        raise Malformed(417, "no expectation is met")
    if not lengths:
        if request.method == "POST":
            raise Malformed(411, "the length of the body is needed")
        return 0
    if len(lengths) > 1 or _LENGTH.fullmatch(lengths[0]) is None:
        raise Malformed(400, "the length of the body is malformed")
    return int(lengths[0])
