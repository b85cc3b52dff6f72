"""Any bytes are a request by HTTP's grammar, or are refused in words of ours."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from poller.http import Request
from poller.http.parsing import END, Malformed, parse
from tests.support.http import TOKEN, endpoints, request

WHOLE = request("/api/pollers/orders?q=1", "Content-Length: 5", "Accept: */*", key=TOKEN)
BYTES = st.binary(max_size=12)


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """A request of which pieces were replaced by any bytes, or by pieces of itself."""
    data = WHOLE
    for _ in range(draw(st.integers(1, 4))):
        at, until = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
        data = data[:at] + draw(BYTES | st.sampled_from([data[at:until] * 2, b"\r\n", b"\n", b"\x00"])) + data[until:]
    return data.partition(END)[0] + END


def read(data: bytes) -> Request | int:
    """The request, or the status with which it is refused."""
    try:
        return parse(data, "127.0.0.1")
    except Malformed as refused:
        return refused.status


@settings(max_examples=150, deadline=None)
@example(WHOLE)
@given(changed() | st.binary(max_size=200).map(lambda data: data.replace(END, b"") + END))
def test_any_bytes_are_a_clean_request_or_refused(data: bytes) -> None:
    found = read(data)
    if isinstance(found, int):
        assert found in {400, 411, 413, 417, 505}
        return

    texts = [found.method, found.path, found.query, *(text for header in found.headers for text in header)]
    assert all(text.isascii() and (text.isprintable() or "\t" in text) for text in texts)
    assert found.method.isupper()
    assert found.path.startswith("/")
    status = endpoints()(found).status
    assert status in {200, 400, 401, 404, 405, 413, 414, 421}
    if status == 200:
        assert found.path in {"/api/health", "/api/pollers", "/api/pollers/orders", "/api/scale/orders"}


def test_what_clients_send_is_read() -> None:
    head = (
        b"GET /api/health?x=1&code=secret HTTP/1.1\r\nhOsT:localhost:80 \r\nAccept: */*\r\nX-Empty:\r\n"
        b"User-Agent:\tcurl/8 (a; b)\tc\r\nX-Twice: 1\r\nX-Twice: 2\r\nContent-Length: 0\r\n\r\n"
    )

    found = parse(head, "10.0.0.7")

    assert found == Request(
        "GET",
        "/api/health",
        "x=1",
        (
            ("host", "localhost:80"),
            ("accept", "*/*"),
            ("x-empty", ""),
            ("user-agent", "curl/8 (a; b)\tc"),
            ("x-twice", "1"),
            ("x-twice", "2"),
            ("content-length", "0"),
        ),
        0,
        "10.0.0.7",
    )


@pytest.mark.parametrize("name", ["a" * 101, "with space", "", "bra(cket", "\x7f"])
def test_a_headers_name_is_a_token(name: str) -> None:
    with pytest.raises(Malformed):
        parse(f"GET / HTTP/1.1\r\nHost: x\r\n{name}: y\r\n\r\n".encode())
