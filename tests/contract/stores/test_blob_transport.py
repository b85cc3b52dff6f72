"""What the blob store does to the connections under the SDK: each setting shows, and fails here when it is left out."""

from __future__ import annotations

import functools
import gc
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from azure.storage.blob import BlobClient

from poller.errors import StoreError, StoreUnavailable
from poller.model.limits import LARGEST_BODY
from poller.ports import Found, Missing, Timeout, Unchanged
from poller.stores import BlobStore
from tests.contract.stores.canned import Canned, answer
from tests.contract.stores.certificate import certificate
from tests.support.azurite import Azurite
from tests.support.services import wait_until

NAME = "state/shop/orders.json"
TAG = '"0x8DAAAAAAAAAAAAA"'
QUICK = Timeout(connect=0.3, read=0.3)
PATIENT = Timeout(connect=10.0, read=10.0)

WHOLE = answer(206, body=b"{}", ETag=TAG, Content_Range="bytes 0-1/2")
CUT = answer(201, ETag=TAG, x_ms_request_id="5bd1c0b4-401e-0012")[:-8]
"""It ends behind the ETag, inside the next header, and with it the connection."""
SIGNATURE = "cGxlYXNlLWRvLW5vdC1zaG93LW1l"


@pytest.fixture(params=["http", "https"])
def tls(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext | None:
    """What a server speaks over, which the clients of this test trust."""
    if request.param == "http":
        return None
    cert, key = certificate(tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(cert))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


# --- how long an attempt may take


@contextmanager
def _unconnectable() -> Iterator[str]:
    """The connection string of a service to which no connection comes about, as behind a gateway that drops what it is
    sent: a listener that accepts nothing, and as many connections as it takes in."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        try:
            for _ in range(8):
                one = socket.socket()
                waiting.append(one)
                one.settimeout(0.2)
                one.connect(listener.getsockname())
        except TimeoutError:
            pass
        else:
            pytest.skip("this system's listeners take in more than they are asked to")
        try:
            port = listener.getsockname()[1]
            yield Azurite.connection_string_via(f"http://127.0.0.1:{port}/devstoreaccount1")
        finally:
            for one in waiting:
                one.close()


def _in_background(call: Callable[[], object]) -> tuple[threading.Event, list[BaseException]]:
    """Whether it has ended, and of what. On a daemon thread: one that hangs fails its test and no other."""
    ended = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    return ended, errors


CALLS: dict[str, Callable[[BlobStore], object]] = {
    "read": lambda store: store.read(NAME, timeout=QUICK),
    "write": lambda store: store.write(NAME, b"{}", if_tag=TAG, timeout=QUICK),
    "append": lambda store: store.append("audit/a.jsonl", "line", timeout=QUICK),
}
BY_DEFAULT: dict[str, Callable[[BlobStore], object]] = {
    "write, by default": lambda store: store.write(NAME, b"{}", if_tag=TAG),
    "names": lambda store: store.names(""),
}


def _end_before_the_sdks(connection: str, calls: dict[str, Callable[[BlobStore], object]]) -> None:
    """Each call is one attempt that ends of itself, while one that the SDK began before them still goes on."""
    sdk = BlobClient.from_connection_string(connection, "db-state", NAME, retry_total=0)
    theirs, of_theirs = _in_background(sdk.get_blob_properties)
    store = BlobStore.from_connection_string(connection)
    begun = {name: _in_background(functools.partial(call, store)) for name, call in calls.items()}
    for name, (ended, errors) in begun.items():
        wait_until(ended.is_set, f"one attempt ends: {name}", seconds=15)
        assert [type(error) for error in errors] == [StoreUnavailable], name
    assert not theirs.is_set(), of_theirs
    store.close()


def test_connecting_ends_within_our_limit_whatever_the_sdks_is() -> None:
    """The SDK connects for 20 s, in which a lease of 15 s is lost without a second attempt."""
    with _unconnectable() as connection:
        _end_before_the_sdks(connection, CALLS | BY_DEFAULT)


def test_waiting_for_an_answer_ends_within_our_limit() -> None:
    """The SDK waits for 60 s."""
    with Canned(None) as silent:
        _end_before_the_sdks(silent.connection_string, CALLS)


# --- what is asked of a connection


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="this system does not show when it probes")
def test_a_kept_connection_is_probed_before_a_gateway_forgets_it(tls: ssl.SSLContext | None) -> None:
    """Azure's forgets one after 4 minutes without a word: a slower schedule would wait for ever for an answer on it."""
    with Canned(WHOLE, tls=tls) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        assert isinstance(store.read(NAME, timeout=PATIENT), Found)
        [kept] = _connections_to(server.port)
        assert kept.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert 0 < kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 60
        assert 0 < kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) <= 60
        assert kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "a small write goes out at once"
        del kept
        store.close()


def test_connections_that_were_needed_at_once_are_all_kept(
    azurite: Azurite, container: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Forty ticks at once, or a dispatcher that starts: a connection closed each time costs a handshake, and a warning
    in the log."""
    store, before = (
        BlobStore.from_connection_string(azurite.connection_string, container),
        len(_connections_to(azurite.port)),
    )
    with ThreadPoolExecutor(40) as pool:
        azurite.suspend()
        try:
            asked = [pool.submit(store.read, NAME, timeout=PATIENT) for _ in range(40)]
            wait_until(lambda: len(_connections_to(azurite.port)) == before + 40, "all are asked at once", seconds=8)
        finally:
            azurite.resume()
        assert all(isinstance(one.result(), Missing) for one in asked)
    assert len(_connections_to(azurite.port)) == before + 40
    assert "pool is full" not in caplog.text
    store.close()


def _connections_to(port: int) -> list[socket.socket]:
    """The open sockets of this process whose other end that is."""
    found = []
    for one in gc.get_objects():
        if isinstance(one, socket.socket) and one.fileno() >= 0:
            try:
                peer = one.getpeername()
            except OSError:
                continue
            if peer[1] == port:
                found.append(one)
    return found


# --- what is taken for an answer


def test_an_answer_that_breaks_off_in_its_head_is_none(tls: ssl.SSLContext | None) -> None:
    with Canned(CUT, tls=tls) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        with pytest.raises(StoreUnavailable):
            store.write(NAME, b"{}", if_tag=None, timeout=PATIENT)
        store.close()
    assert len(server.asked) == 1


def test_nor_is_it_one_where_a_proxy_stands_between(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Canned(CUT) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        store = BlobStore.from_connection_string(Azurite.connection_string_via("http://storage.invalid/shop"))
        with pytest.raises(StoreUnavailable):
            store.write(NAME, b"{}", if_tag=None, timeout=PATIENT)
        store.close()
    assert [target.partition("?")[0] for _, target in proxy.asked] == [f"http://storage.invalid/shop/db-state/{NAME}"]


@pytest.mark.parametrize("passed", ["127.0.0.1", "*"])
def test_hosts_outside_the_proxy_are_asked_directly(passed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Canned(WHOLE) as server, Canned(WHOLE) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", passed)
        store = BlobStore.from_connection_string(server.connection_string)
        for _ in range(2):
            assert isinstance(store.read(NAME, timeout=PATIENT), Found)
        store.close()
    assert (len(server.asked), len(proxy.asked)) == (2, 0)


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_ca_bundle_in_the_environment_is_trusted(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with Canned(WHOLE, tls=context) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        with pytest.raises(StoreUnavailable):
            store.read(NAME, timeout=PATIENT)
        store.close()
        monkeypatch.setenv(variable, str(cert))
        for _ in range(2):  # the first request of a client looks it up, the others go by what was found
            assert isinstance(store.read(NAME, timeout=PATIENT), Found)
        store.close()


def test_a_netrc_of_the_host_does_not_sign_in(
    azurite: Azurite, container: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """requests would put its name and password in place of the signature."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password something\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    store = BlobStore.from_connection_string(azurite.connection_string, container)
    tag = store.write(NAME, b"{}", if_tag=None).tag
    assert isinstance(store.read(NAME, unless=tag), Unchanged)
    store.close()


def test_closing_ends_the_connections_of_all_documents() -> None:
    """More documents than a process keeps clients of; closing again is no error, and the next call connects anew."""
    with Canned(WHOLE) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        for number in range(100):
            assert isinstance(store.read(f"state/shop/{number}.json", timeout=PATIENT), Found)
        assert len(_connections_to(server.port)) == 1, "the documents share one"
        store.close()
        store.close()
        assert _connections_to(server.port) == []
        assert isinstance(store.read(NAME, timeout=PATIENT), Found)
        store.close()
    assert len({target.partition("?")[0] for _, target in server.asked}) == 101


def test_a_redirection_is_followed_nowhere() -> None:
    """Whoever could redirect a write could keep it."""
    with Canned(answer(201, ETag=TAG)) as elsewhere:
        found = answer(307, Location=f"{elsewhere.endpoint}/db-state/{NAME}")
        with Canned(found) as server:
            store = BlobStore.from_connection_string(server.connection_string)
            with pytest.raises(StoreError):
                store.write(NAME, b"{}", if_tag=None, timeout=PATIENT)
            store.close()
    assert len(server.asked) == 1
    assert elsewhere.asked == []


def test_a_document_of_any_usual_size_is_one_request_each_way(azurite: Azurite, container: str) -> None:
    """Another writer may come between two requests; the SDK would read what is beyond 32 MB by further ones."""
    store = BlobStore.from_connection_string(azurite.connection_string, container)
    store.write("other", b"{}", if_tag=None)  # the container
    body = b" " * LARGEST_BODY
    mark = azurite.mark()
    store.write(NAME, body, if_tag=None, timeout=PATIENT)
    found = store.read(NAME, timeout=PATIENT)
    assert isinstance(found, Found)
    assert found.body == body
    store.close()
    asked = [request.method for request in azurite.requests(since=mark) if request.path.startswith(f"/{container}")]
    assert asked == ["PUT", "GET"]
