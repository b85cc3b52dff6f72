"""HTTP as the proxy speaks it, checked with a server and clients that use the rarer parts of HTTP/1.1."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.resilience.faults.plan import Script
from tests.resilience.faults.proxy import FaultProxy


class _Server(BaseHTTPRequestHandler):
    """Answers with what it got; chunked for paths that begin with /chunked, until the end for /endless."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def _answer(self) -> None:
        length = self.headers.get("Content-Length")
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(length or 0))
        expect = self.headers.get("Expect")
        text = f"{self.command} {self.path} {length} {expect} {self.client_address[1]} ".encode() + body
        self.send_response(200)
        if self.path.startswith("/chunked"):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (text[:7], text[7:]):
                self.wfile.write(b"%x;note=1\r\n%b\r\n" % (len(part), part))
            self.wfile.write(b"0\r\nTrailer: x\r\n\r\n")
            return
        if self.path.startswith("/endless"):
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_PUT = do_HEAD = _answer  # noqa: N815 - http.server calls them so

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        with FaultProxy("127.0.0.1", server.server_port) as running:
            yield running
        server.shutdown()
        serving.join()


def ask(client: http.client.HTTPConnection, method: str, path: str, **more: object) -> list[bytes]:
    client.request(method, path, **more)  # type: ignore[arg-type]
    return client.getresponse().read().split(b" ", 5)


def test_both_connections_are_kept_for_many_requests(proxy: FaultProxy) -> None:
    client = http.client.HTTPConnection("127.0.0.1", proxy.port)
    client.connect()
    own = client.sock
    ports = {ask(client, "GET", f"/{n}")[4] for n in range(50)}
    assert client.sock is own
    assert len(ports) == 1
    client.close()


@pytest.mark.parametrize("path", ["/plain", "/chunked", "/endless"])
@pytest.mark.parametrize("encode_chunked", [False, True])
def test_bodies_pass_however_they_are_delimited(proxy: FaultProxy, path: str, encode_chunked: bool) -> None:
    client = http.client.HTTPConnection("127.0.0.1", proxy.port)
    body = b"x" * 100_000
    for _ in range(2):
        if encode_chunked:
            got = ask(client, "PUT", path, body=iter([body[:3], body[3:]]), encode_chunked=True)
        else:
            got = ask(client, "PUT", path, body=body)
        assert got[:2] == [b"PUT", path.encode()]
        assert got[5] == body
    assert [one.request.body for one in proxy.requests] == [body, body]
    client.close()


def test_an_answer_to_head_has_no_body_whatever_length_it_names(proxy: FaultProxy) -> None:
    client = http.client.HTTPConnection("127.0.0.1", proxy.port)
    assert ask(client, "HEAD", "/plain") == [b""]
    assert ask(client, "GET", "/plain")[1] == b"/plain"
    client.close()


def test_a_client_that_expects_100_gets_it_before_the_body(proxy: FaultProxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as sock:
        sock.sendall(b"PUT /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"body")
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        got = answer.read().split(b" ", 5)
    assert got[2:4] == [b"4", b"None"]
    assert got[5] == b"body"


def test_a_head_that_comes_byte_by_byte_is_one_request(proxy: FaultProxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as sock:
        for byte in b"GET /a%20b?comp=list&x=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":
            sock.sendall(bytes([byte]))
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        assert answer.read().startswith(b"GET /a%20b?comp=list&x=1 ")
        assert sock.recv(1) == b""
    [record] = proxy.requests
    assert (record.request.path, record.request.comp) == ("/a b", "list")


def test_a_client_that_leaves_in_mid_request_leaves_no_request(proxy: FaultProxy) -> None:
    proxy.plan = Script([])
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as sock:
        sock.sendall(b"PUT /x HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf")
        sock.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
    assert len(proxy.requests) == 0
