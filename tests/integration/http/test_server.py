"""The server of `poller run --http`, over real sockets, with bytes that no client of a library sends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from poller.http import Answer, CallerLimits, HttpServer, Request, read_address
from tests.support.http import SECURITY, TOKEN, Asked, Received, endpoints, received, request, send
from tests.support.services import wait_until

QUICK = CallerLimits(seconds=0.3, connections=4, lingering=0.3)
KEYED = f"x-functions-key: {TOKEN}"


@pytest.fixture(scope="module")
def asked() -> Asked:
    return Asked()


@pytest.fixture(scope="module")
def server(asked: Asked) -> Iterator[HttpServer]:
    with HttpServer(endpoints(asked), read_address("0")) as serving:
        yield serving


def answered(server: HttpServer, data: bytes) -> Received:
    given = send(server.port, data)
    assert given is not None
    return given


def test_a_request_is_answered_and_the_connection_closed(server: HttpServer) -> None:
    given = answered(server, request("/api/pollers/orders", key=TOKEN))

    assert (given.status, given.json["name"]) == (200, "orders")
    assert given.headers["connection"] == "close"
    assert given.headers["content-length"] == str(len(given.body))
    assert given.headers["content-type"] == "application/json"
    assert "server" not in given.headers


def test_a_caller_that_keeps_its_side_open_is_answered(server: HttpServer) -> None:
    given = send(server.port, request(), half_close=False)

    assert given is not None
    assert (given.status, given.body) == (200, b"")


def test_head_has_the_length_of_get_and_no_body(server: HttpServer) -> None:
    get, head = (answered(server, request("/api/pollers", method=method, key=TOKEN)) for method in ("GET", "HEAD"))

    assert head.body == b""
    assert head.headers["content-length"] == str(len(get.body))


def test_a_request_in_single_bytes_is_answered(server: HttpServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request():
            connection.sendall(bytes([byte]))
        given = received(connection)

    assert given is not None
    assert given.status == 200


HEAD = b"GET /api/pollers/orders HTTP/1.1\r\nHost: localhost\r\n" + KEYED.encode() + b"\r\n"
LINE = b" HTTP/1.1\r\nHost: localhost\r\n" + KEYED.encode() + b"\r\n\r\n"

MALFORMED: dict[str, tuple[bytes, int]] = {
    "nothing but an end": (b"\r\n\r\n", 400),
    "a line feed first": (b"\n" + HEAD + b"\r\n", 400),
    "no version": (b"GET /api/health\r\nHost: localhost\r\n\r\n", 400),
    "HTTP/0.9": (b"GET /api/health\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "HTTP/2 of a path": (b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
    "HTTP/9.9": (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 505),
    "version in small letters": (b"GET / http/1.1\r\nHost: localhost\r\n\r\n", 400),
    "a version of two digits": (b"GET / HTTP/1.10\r\nHost: localhost\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64, 400),
    "zeros": (b"\x00" * 100, 400),
    "high bytes": (b"\xff\xfe\xfd\xfc\r\n\r\n", 400),
    "a method in small letters": (b"get" + b" /api/health" + LINE, 400),
    "a method with a NUL": (b"GE\x00T /api/health" + LINE, 400),
    "a long method": (b"G" * 21 + b" /api/health" + LINE, 400),
    "two blanks": (b"GET  /api/health" + LINE, 400),
    "a tab": (b"GET\t/api/health" + LINE, 400),
    "a blank in the path": (b"GET /api/pollers/ord ers" + LINE, 400),
    "a NUL in the path": (b"GET /api/pollers/orders\x00" + LINE, 400),
    "UTF-8 in the path": ("GET /api/pollers/\u00f6rders".encode() + LINE, 400),
    "broken UTF-8 in the path": (b"GET /api/pollers/\xc3\x28" + LINE, 400),
    "DEL in the path": (b"GET /api/pollers/orders\x7f" + LINE, 400),
    "an absolute address": (b"GET http://localhost/api/health" + LINE, 400),
    "an asterisk": (b"OPTIONS *" + LINE, 400),
    "CONNECT": (b"CONNECT localhost:80" + LINE, 400),
    "no path": (b"GET" + LINE, 400),
    "dots": (b"GET /api/pollers/../pollers/orders" + LINE, 404),
    "escaped dots": (b"GET /api/%2e%2e/api/health" + LINE, 404),
    "escaped slashes": (b"GET /api%2fpollers%2forders" + LINE, 404),
    "an escaped NUL": (b"GET /api/pollers/orders%00" + LINE, 404),
    "an escaped line": (b"GET /api/pollers/orders%0d%0aX-Y:%20z" + LINE, 404),
    "overlong UTF-8": (b"GET /api/pollers/%c0%ae%c0%ae/orders" + LINE, 404),
    "two slashes": (b"GET //api/pollers/orders" + LINE, 404),
    "a backslash": (b"GET /api\\pollers\\orders" + LINE, 404),
    "a fragment": (b"GET /api/pollers/orders#x" + LINE, 404),
    "a path of 2 kB": (b"GET /api/pollers/" + b"a" * 2_000 + LINE, 414),
    "a path of 10 kB": (b"GET /api/pollers/" + b"a" * 10_000 + LINE, 431),
    "a query of 10 kB": (b"GET /api/pollers/orders?q=" + b"a" * 10_000 + LINE, 431),
    "a header of 10 kB": (HEAD + b"X: " + b"a" * 10_000 + b"\r\n\r\n", 431),
    "a thousand headers": (HEAD + b"X: y\r\n" * 2_000 + b"\r\n", 431),
    "a line without an end": (b"GET /" + b"a" * 20_000, 431),
    "a header without a colon": (HEAD + b"nonsense\r\n\r\n", 400),
    "a header without a name": (HEAD + b": x\r\n\r\n", 400),
    "a blank before the colon": (HEAD + b"X : y\r\n\r\n", 400),
    "a folded header": (HEAD + b"X: y\r\n z\r\n\r\n", 400),
    "a bare line feed": (HEAD + b"X: y\nHost: evil\r\n\r\n", 400),
    "a bare carriage return": (HEAD + b"X: y\rHost: evil\r\n\r\n", 400),
    "a NUL in a header": (HEAD + b"X: y\x00z\r\n\r\n", 400),
    "UTF-8 in a header": (HEAD + "X: \u00f6\r\n\r\n".encode(), 400),
    "a high byte in a header's name": (HEAD + b"X\xff: y\r\n\r\n", 400),
    "an escape in a header": (HEAD + b"X: \x1b[2J\r\n\r\n", 400),
    "line feeds only": (HEAD.replace(b"\r\n", b"\n") + b"\n\r\n\r\n", 400),
    "no host": (b"GET /api/health HTTP/1.1\r\n\r\n", 400),
    "no host, HTTP/1.0": (b"GET /api/health HTTP/1.0\r\n\r\n", 400),
    "two hosts": (HEAD + b"Host: localhost\r\n\r\n", 400),
    "another host": (HEAD.replace(b"localhost", b"evil.example") + b"\r\n", 421),
    "an empty host": (HEAD.replace(b"Host: localhost", b"Host:") + b"\r\n", 421),
    "two keys": (HEAD + KEYED.encode() + b"\r\n\r\n", 400),
    "two authorizations": (HEAD + b"Authorization: Bearer x\r\nAuthorization: Bearer y\r\n\r\n", 400),
    "a length that is none": (HEAD + b"Content-Length: x\r\n\r\n", 400),
    "a negative length": (HEAD + b"Content-Length: -1\r\n\r\n", 400),
    "a length with a sign": (HEAD + b"Content-Length: +1\r\n\r\n", 400),
    "a length in hexadecimal": (HEAD + b"Content-Length: 0x1\r\n\r\n", 400),
    "a list of lengths": (HEAD + b"Content-Length: 1, 1\r\n\r\n", 400),
    "two lengths": (HEAD + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400),
    "a huge length": (HEAD + b"Content-Length: 999999999999999\r\n\r\n", 413),
    "an endless length": (HEAD + b"Content-Length: " + b"9" * 4_000 + b"\r\n\r\n", 400),
    "a body of 10 kB": (HEAD + b"Content-Length: 10000\r\n\r\n" + b"x" * 10_000, 413),
    "8 kB together": (HEAD + b"X: " + b"a" * 4_000 + b"\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5_000, 413),
    "chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
    "chunks and a length": (HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
    "an expectation": (HEAD + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", 417),
    "half a request": (HEAD, 400),
    "half a line": (b"GET /api/pol", 400),
    "a change": (HEAD.replace(b"GET", b"POST") + b"Content-Length: 2\r\n\r\n{}", 405),
    "a preflight": (HEAD.replace(b"GET", b"OPTIONS") + b"Origin: https://evil.example\r\n\r\n", 405),
}


@pytest.mark.guarantee(
    "Hostile and broken input",
    "No request brings the endpoints down, learns a name, or holds up a poller",
)
@pytest.mark.parametrize("case", MALFORMED)
def test_bad_input_is_a_plain_refusal(case: str, server: HttpServer, asked: Asked) -> None:
    data, status = MALFORMED[case]
    before = asked.times

    given = answered(server, data)

    assert given.status == status
    assert list(given.json) == ["error"]
    assert {name: given.headers[name] for name in SECURITY} == SECURITY
    assert asked.times == before, "no look was made"
    for secret in (b"orders", b"refunds", TOKEN.encode(), b"Traceback", b"evil"):
        assert secret not in given.body


def test_a_caller_that_says_nothing_hears_nothing(server: HttpServer) -> None:
    assert send(server.port, b"") is None


def test_two_requests_on_one_connection_get_one_answer(server: HttpServer) -> None:
    """What follows a request is never taken for another one."""
    given = answered(server, request("/api/health") + request("/api/pollers/orders", key=TOKEN))

    assert (given.status, given.body) == (200, b"")


# --- callers that take all they can get


@pytest.fixture
def small() -> Iterator[HttpServer]:
    """At most four callers, each for 0.3 seconds."""
    with HttpServer(endpoints(), read_address("0"), QUICK) as serving:
        yield serving


def ours() -> list[str]:
    """Threads of servers that are at work on a caller."""
    return [one.name for one in threading.enumerate() if one.name == "poller-http-caller"]


def test_slow_callers_are_ended_and_the_next_are_served(small: HttpServer) -> None:
    slow = [socket.create_connection(("127.0.0.1", small.port), timeout=30) for _ in range(12)]
    try:
        for number, one in enumerate(slow):
            one.sendall(b"GET /api/health HTTP/1.1\r\nHost: local"[: number * 4])
        assert len(ours()) <= QUICK.connections
        given = answered(small, request())
        assert given.status == 200
        ends = [received(one) for one in slow]
    finally:
        for one in slow:
            one.close()

    assert [end and end.status for end in ends] == [None] + [408] * 11
    wait_until(lambda: ours() == [])


def test_a_hundred_that_drip_keep_nobody_from_health() -> None:
    """A load balancer gives up after some seconds; that of a request is longer here than any test waits."""
    limits = CallerLimits(seconds=3_600.0, connections=4, undisturbed=0.05)
    with HttpServer(endpoints(), read_address("0"), limits) as serving, ExitStack() as callers:
        for _ in range(100):
            slow = callers.enter_context(socket.create_connection(("127.0.0.1", serving.port), timeout=30))
            slow.sendall(b"GET /api/health HTTP/1.1\r\nHost: local")

        assert answered(serving, request()).status == 200


def test_a_slow_caller_is_served_while_nobody_waits() -> None:
    limits = CallerLimits(seconds=3_600.0, connections=2, undisturbed=0.0)
    with HttpServer(endpoints(), read_address("0"), limits) as serving, ExitStack() as callers:
        slow = [
            callers.enter_context(socket.create_connection(("127.0.0.1", serving.port), timeout=30)) for _ in range(2)
        ]
        for one in slow:
            one.sendall(request()[:9])
        wait_until(lambda: len(ours()) == 2)
        time.sleep(0.3)  # the server looks for others meanwhile: it has no clock to pass
        for one in slow:
            one.sendall(request()[9:])

        given = [received(one) for one in slow]

    assert [one and one.status for one in given] == [200, 200]


def test_a_caller_that_drips_gains_no_time(small: HttpServer) -> None:
    """The time is of the whole request, not of each byte."""
    with socket.create_connection(("127.0.0.1", small.port), timeout=30) as one:
        one.sendall(b"GET /")
        drips = 0
        try:
            while drips < 1_000:
                time.sleep(0.02)  # what it does is slow: there is no clock to pass
                one.sendall(b"a")
                drips += 1
        except OSError:
            pass
    assert 0 < drips < 1_000


def test_a_hundred_callers_at_once_are_all_answered_by_few_threads(small: HttpServer) -> None:
    seen: list[int] = []

    def call(_: int) -> int:
        given = answered(small, request())
        seen.append(len(ours()))
        return given.status

    with ThreadPoolExecutor(100) as callers:
        assert list(callers.map(call, range(100))) == [200] * 100

    assert max(seen) <= QUICK.connections
    wait_until(lambda: ours() == [])


def test_a_caller_that_does_not_take_its_answer_is_ended() -> None:
    large = Answer(200, body=b"x" * 50_000_000, length=50_000_000)
    with (
        HttpServer(lambda _: large, read_address("0"), QUICK) as serving,
        socket.create_connection(("127.0.0.1", serving.port), timeout=30) as one,
    ):
        one.sendall(request())
        wait_until(lambda: len(ours()) == 1)
        wait_until(lambda: ours() == [])


def test_a_caller_that_vanishes_harms_nobody(small: HttpServer) -> None:
    for data in (b"", b"GET", request(), request("/api/pollers", key=TOKEN)):
        one = socket.create_connection(("127.0.0.1", small.port), timeout=30)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        one.sendall(data)
        one.close()  # with a reset

    assert answered(small, request()).status == 200
    wait_until(lambda: ours() == [])


def test_a_fault_in_an_answer_ends_one_connection_only() -> None:
    def broken(_: object) -> object:
        raise RuntimeError("boom")

    with HttpServer(broken, read_address("0"), QUICK) as serving:  # type: ignore[arg-type]
        assert send(serving.port, request()) is None
        assert send(serving.port, request()) is None


def test_a_closed_server_leaves_no_thread_and_no_port() -> None:
    before = set(threading.enumerate())
    held = []
    with HttpServer(endpoints(), read_address("0"), CallerLimits(seconds=300.0, connections=3)) as serving:
        port = serving.port
        held += [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(5)]
        wait_until(lambda: len(ours()) == 3)
        serving.close(grace=300.0)  # nobody is being answered, so none of it is needed

    left = set(threading.enumerate()) - before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=30)
    for one in held:
        one.close()
    assert left == set()


def test_who_is_being_answered_when_the_server_closes_gets_it() -> None:
    asked, go_on = threading.Event(), threading.Event()

    def slowly(_: Request) -> Answer:
        asked.set()
        assert go_on.wait(30)
        return Answer(200)

    with HttpServer(slowly, read_address("0"), CallerLimits(seconds=300.0)) as serving:
        with socket.create_connection(("127.0.0.1", serving.port), timeout=30) as one:
            one.sendall(request())
            assert asked.wait(30)
            closing = threading.Thread(target=serving.close, args=(300.0,))
            closing.start()
            closing.join(0.2)  # it waits
            go_on.set()
            given = received(one)
        closing.join(30)

    assert given is not None
    assert given.status == 200


def test_where_no_thread_can_be_started_the_server_goes_on(small: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    start, refused = threading.Thread.start, list[str]()

    def fails_once(thread: threading.Thread) -> None:
        if thread.name == "poller-http-caller" and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fails_once)

    assert send(small.port, b"") is None
    assert answered(small, request()).status == 200
    assert refused


def test_who_has_an_answer_keeps_nobody_from_health() -> None:
    """However long it could stay where nobody waits: longer than any test does."""
    limits = CallerLimits(connections=4, lingering=3_600.0)
    with HttpServer(endpoints(), read_address("0"), limits) as serving, ExitStack() as callers:
        for _ in range(20):
            idle = callers.enter_context(socket.create_connection(("127.0.0.1", serving.port), timeout=30))
            idle.sendall(request())
        assert answered(serving, request()).status == 200
