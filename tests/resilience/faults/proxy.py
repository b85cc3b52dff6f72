"""A fault-injecting HTTP proxy in front of a real Azurite: the storage service with a network that misbehaves
on demand.

    with FaultProxy("127.0.0.1", azurite_port) as proxy:
        store = BlobStore.from_connection_string(proxy.connection_string, container="db-state")
        proxy.plan = Script([fault.reset_after()])      # the first write of a state document is applied, then
        reset ...
        assert proxy.counts() == {"GET": 1, "PUT": 2}   # request budgets
        assert proxy.requests[1].applied                # what really happened, whatever the client was shown

The server behind it is the truth: the proxy never invents a success, only failures.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from types import TracebackType

from tests.resilience.faults.clock import ServerClock, moved
from tests.resilience.faults.fault import Fault
from tests.resilience.faults.holds import Holds
from tests.resilience.faults.listener import Listener
from tests.resilience.faults.plan import NoFaults, Plan
from tests.resilience.faults.request import STATE, Record, RequestLog
from tests.resilience.faults.upstream import Upstream
from tests.resilience.faults.wire import Connection, Message, WireError
from tests.support.azurite import ACCOUNT, Azurite

_PASS = Fault(name="pass")


class FaultProxy:
    """Listens on a free port of 127.0.0.1 from construction to `close`; best used as a context manager.

    - `plan`: asked once for each request; may be replaced at any time.
    - `requests`: the `RequestLog`, in order of arrival.
    - `clock`: the `ServerClock` that `Date` and `Last-Modified` are shown by; truthful until it is set.

    Leaving the `with` block raises what a plan raised, so that a broken plan cannot pass for a fault.
    """

    def __init__(self, upstream_host: str, upstream_port: int, plan: Plan | None = None) -> None:
        self.plan: Plan = plan or NoFaults()
        self.requests = RequestLog()
        self.clock = ServerClock()
        self.errors: list[Exception] = []
        self._upstream_address = (upstream_host, upstream_port)
        self._upstreams: set[Upstream] = set()
        self._holds = Holds()
        self._lock = threading.Lock()
        self._listener = Listener(self._serve, "fault-proxy")
        self._listener.up()

    @property
    def port(self) -> int:
        """The port it listens on; the same through `down` and `up`."""
        return self._listener.port

    @property
    def endpoint(self) -> str:
        """The blob endpoint's address, with the account in the path, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    @property
    def connection_string(self) -> str:
        """For the emulator's account, through this proxy. (The shared key's signature covers the path, not
        the host.)
        """
        return Azurite.connection_string_via(self.endpoint)

    def count(
        self,
        method: str | None = None,
        path_contains: str = "",
        where: Callable[[Record], bool] = lambda record: True,
    ) -> int:
        """How many requests of that method and path arrived for which `where` holds."""
        return len(self.requests.select(method, path_contains, where))

    def counts(self, path_contains: str = STATE) -> dict[str, int]:
        """Requests for state documents by method, only those that occurred: an idle tick is `{"GET": 1}`."""
        return self.requests.counts(path_contains)

    def reset(self) -> None:
        """Forget the requests so far; the plan, the clock and whatever is held stay."""
        self.requests.reset()

    def down(self) -> None:
        """The service is gone: connections are reset and new ones refused. Late writes still land."""
        self._listener.down()

    def up(self) -> None:
        """The service is back, on the same port."""
        self._listener.up()

    def held(self, tag: str | None = None) -> list[Record]:
        """The requests that wait under that tag (None: any): held ones, silent ones, and writes that are yet
        to land.
        """
        return self._holds.held(tag)

    def release(self, tag: str | None = None, timeout: float = 10.0) -> list[Record]:
        """Let them go (None: all) and return when the server has dealt with each: a late write has then
        landed, or was refused (`record.upstream`); a held request or answer goes on; a silent connection is
        reset.
        """
        return self._holds.release(tag, timeout)

    def settle(self, timeout: float = 30.0) -> None:
        """Block until nothing more will happen to any request in the log. Raises AssertionError after
        `timeout` seconds.
        """
        end = time.monotonic() + timeout
        for record in self.requests:
            assert record.finished.wait(max(0.0, end - time.monotonic())), f"still under way: {record}"

    def close(self) -> None:
        """End all connections and threads. Late writes that have not landed never do."""
        self._holds.close()
        with self._lock:
            upstreams = list(self._upstreams)
        for upstream in upstreams:
            upstream.interrupt()
        self._listener.close()

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None and self.errors:
            raise ExceptionGroup("the proxy or its plan failed", self.errors)

    def _serve(self, connection: Connection) -> None:
        upstream = Upstream(self._upstream_address)
        with self._lock:
            self._upstreams.add(upstream)
        try:
            while (message := connection.read_request()) is not None:
                record = self.requests.add(message)
                try:
                    if not self._suffer(connection, upstream, message, record):
                        return
                finally:
                    if record.fault is None or record.fault.upstream != "late":
                        record.finished.set()
        except (OSError, WireError):
            connection.resetting = True  # one of the two sides is gone; the other learns it by a reset
        except Exception as error:  # noqa: BLE001 - kept for the test, which raises it at its end
            self.errors.append(error)
            connection.resetting = True
        finally:
            with self._lock:
                self._upstreams.discard(upstream)
            upstream.close()

    def _suffer(self, connection: Connection, upstream: Upstream, message: Message, record: Record) -> bool:
        """The whole fate of one request; True if the connection goes on."""
        with self._lock:
            record.fault = self.plan(record.request)
        fault = record.fault or _PASS
        if fault.hold == "before":
            self._holds.wait(record, fault.tag, fault.seconds)
        answer = None
        if fault.upstream in ("once", "twice"):
            answer = self._forward(upstream, message, record)
        if fault.upstream == "twice":
            second = self._forward(upstream, message, record)
            answer = second if fault.second_answer else answer
        if fault.hold == "after":
            self._holds.wait(record, fault.tag, fault.seconds)
        if fault.upstream == "late":
            record.answers(fault.status or None)
            self._holds.defer(record, fault.tag, fault.seconds, lambda: self._land(message, record))
        if answer is not None and fault.answer in ("real", "cut", "dribble"):
            return (
                self._answer_otherwise(connection, self._altered(answer, fault), record, fault) and not message.closes
            )
        return self._fail(connection, message, record, fault) and not message.closes

    def _forward(self, upstream: Upstream, message: Message, record: Record) -> Message:
        answer = upstream.exchange(message)
        record.landed_as(answer)
        if record.request.method not in ("GET", "HEAD") and answer.status < 300:
            self.clock.wrote(answer.get("etag"))
        return answer

    def _land(self, message: Message, record: Record) -> None:
        upstream = Upstream(self._upstream_address)
        try:
            self._forward(upstream, message, record)
        except (OSError, WireError):
            pass  # the server is gone: the write is lost for good
        finally:
            upstream.close()
            record.finished.set()

    def _altered(self, answer: Message, fault: Fault) -> Message:
        answer = self.clock.retell(answer)
        if fault.date_offset:
            answer = moved(answer, "date", fault.date_offset)
        for name in fault.without:
            answer = answer.replacing(name, None)
        return answer

    def _answer_otherwise(self, connection: Connection, answer: Message, record: Record, fault: Fault) -> bool:
        """Give the server's answer, whole, cut short or byte by byte."""
        if fault.answer == "cut":
            head, body = answer.encode_head(), answer.encode_body()
            whole, last = (head, body) if body else (b"", head)
            sent = whole + last[: min(int(len(last) * fault.keep), len(last) - 1)]
            record.answers(answer.status if b"\r\n" in sent else None)
            connection.send(sent)
            return False
        record.answers(answer.status)
        record.finished.set()
        if fault.answer == "dribble" and fault.seconds is not None:
            self._dribble(connection, answer.encode(), record, fault)
        else:
            connection.send(answer.encode())
        return not answer.closes

    def _dribble(self, connection: Connection, data: bytes, record: Record, fault: Fault) -> None:
        released = threading.Event()

        def send() -> None:
            for at in range(len(data)):
                if released.wait(fault.seconds):
                    connection.send(data[at:])
                    return
                connection.send(data[at : at + 1])

        self._holds.during(record, fault.tag, released.set, send)

    def _fail(self, connection: Connection, message: Message, record: Record, fault: Fault) -> bool:
        """Give the client something else than the server's answer."""
        if fault.answer == "error":
            record.answers(fault.status)
            connection.send(self._error(fault, head_only=message.start.startswith("HEAD ")).encode())
            return True
        record.answers(None)
        if fault.answer == "silence":
            if fault.upstream == "late":
                connection.wait_until_left()
            else:
                record.finished.set()
                self._holds.during(
                    record, fault.tag, lambda: connection.interrupt(reset=True), connection.wait_until_left
                )
        connection.resetting = connection.resetting or fault.answer == "reset"
        return False

    def _error(self, fault: Fault, *, head_only: bool) -> Message:
        phrase = HTTPStatus(fault.status).phrase
        body = (
            f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{fault.code}</Code>'
            f"<Message>{phrase}: {fault.name}, by the fault proxy.</Message></Error>"
        ).encode()
        headers = [
            ("Content-Length", str(len(body))),
            ("Content-Type", "application/xml"),
            ("x-ms-request-id", str(uuid.uuid4())),
            ("x-ms-error-code", fault.code),
            ("Date", formatdate(self.clock.show() // 1, usegmt=True)),
        ]
        if fault.retry_after is not None:
            headers.append(("Retry-After", str(fault.retry_after)))
        return Message(f"HTTP/1.1 {fault.status} {phrase}", tuple(headers), b"" if head_only else body)
