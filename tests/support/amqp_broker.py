"""A broker for Microsoft's SDKs of Service Bus and Event Hubs where neither service nor emulator can be had.

It speaks as much of AMQP 1.0 as a sender needs, in frames made and read by the SDK's own codec, over TCP without TLS.
It keeps what is sent to an entity, message by message as a receiver would have it, and refuses what a test says. It
knows nothing of sessions, partitions, duplicate detection or rights: what the services make of a message is not shown.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from azure.servicebus._pyamqp import performatives as frames
from azure.servicebus._pyamqp._decode import decode_frame, decode_payload
from azure.servicebus._pyamqp._encode import encode_frame, encode_payload
from azure.servicebus._pyamqp.endpoints import Source, Target
from azure.servicebus._pyamqp.error import AMQPError
from azure.servicebus._pyamqp.message import Message, Properties
from azure.servicebus._pyamqp.outcomes import Accepted, Rejected

_SASL, _AMQP = b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00"
_OPEN, _BEGIN, _ATTACH, _FLOW, _TRANSFER, _DISPOSITION, _DETACH, _END, _CLOSE = range(0x10, 0x19)
_BATCH_FORMAT = 0x80013700


@dataclass(frozen=True)
class Sent:
    """A message as it arrived.

    Attributes:
        entity: where it was sent to. parcel: the number of the send it came with. envelope: annotations of that send.
    """

    entity: str
    parcel: int
    body: bytes
    message_id: str
    session_id: str | None
    content_type: str
    annotations: dict[str, str]
    properties: dict[str, str]
    envelope: dict[str, str]


class Broker:
    """Listens until it is closed. `largest`: bytes of a send that it takes, as it says when a link is opened."""

    def __init__(self, *, largest: int = 262_144) -> None:
        self.largest = largest
        self.sent: list[Sent] = []
        self.parcels = 0
        self.refusal: str | None = None
        """The condition with which every send is refused, such as `com.microsoft:server-busy`."""
        self.missing = ""
        """The name of an entity that does not exist."""
        broker = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                _Connection(broker, self.request).serve()

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def connection_string(self) -> str:
        """As of the services' emulators: without TLS."""
        port = self._server.server_address[1]
        return (
            f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=all;SharedAccessKey=c2VjcmV0LWtleQ==;"
            "UseDevelopmentEmulator=true;"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def keep(self, entity: str, payload: bytes, form: int) -> None:
        """A send has arrived."""
        outer: Any = decode_payload(memoryview(payload))
        inner: list[Any] = [decode_payload(memoryview(one)) for one in outer.data] if form == _BATCH_FORMAT else [outer]
        self.parcels += 1
        for one in inner:
            about = one.properties
            self.sent.append(
                Sent(
                    entity=entity,
                    parcel=self.parcels,
                    body=b"".join(one.data),
                    message_id=_text(about.message_id),
                    session_id=None if about.group_id is None else _text(about.group_id),
                    content_type=_text(about.content_type),
                    annotations=_texts(one.message_annotations),
                    properties=_texts(one.application_properties),
                    envelope=_texts(outer.message_annotations),
                )
            )


@dataclass
class _Link:
    entity: str
    handle: int
    payload: bytearray = field(default_factory=bytearray)


class _Connection:
    def __init__(self, broker: Broker, connected: socket.socket) -> None:
        self._broker = broker
        self._socket = connected
        self._links: dict[tuple[int, int], _Link] = {}
        self._answers: int | None = None
        self._deliveries = 0

    def serve(self) -> None:
        """Answer until the other side has gone."""
        try:
            self._greet()
            while self._answer(*self._read()):
                pass
        except (ConnectionError, OSError):
            pass

    def _greet(self) -> None:
        header = self._take(8)
        if header == _SASL:
            self._socket.sendall(_SASL)
            mechanisms = [b"ANONYMOUS", b"EXTERNAL", b"MSSBCBS"]
            self._write(_made(frames.SASLMechanism, sasl_server_mechanisms=mechanisms), kind=b"\x01")
            self._read()
            self._write(_made(frames.SASLOutcome, code=0), kind=b"\x01")
            header = self._take(8)
        assert header == _AMQP, header
        self._socket.sendall(_AMQP)

    def _answer(self, channel: int, body: bytes) -> bool:
        if not body:
            return True
        code, fields = decode_frame(memoryview(body))
        if code == _OPEN:
            limits = {"max_frame_size": 65_536, "channel_max": 100, "idle_timeout": 60_000}
            self._write(_made(frames.OpenFrame, container_id="broker", **limits), channel)
        elif code == _BEGIN:
            windows = {"incoming_window": 65_536, "outgoing_window": 65_536, "handle_max": 255}
            self._write(_made(frames.BeginFrame, remote_channel=channel, next_outgoing_id=0, **windows), channel)
        elif code == _ATTACH:
            self._attach(channel, fields)
        elif code == _TRANSFER:
            self._transfer(channel, fields)
        elif code == _DETACH:
            self._write(_made(frames.DetachFrame, handle=fields[0], closed=True), channel)
        elif code == _END:
            self._write(_made(frames.EndFrame), channel)
        elif code == _CLOSE:
            self._write(_made(frames.CloseFrame), channel)
            return False
        return True

    def _attach(self, channel: int, fields: list[Any]) -> None:
        name, handle, receives = _text(fields[0]), fields[1], fields[2]
        source, target = (_address(one) for one in (fields[5], fields[6]))
        entity = target.rpartition("/")[2]
        missing = not receives and bool(entity) and entity == self._broker.missing
        self._write(
            _made(
                frames.AttachFrame,
                name=name,
                handle=handle,
                role=not receives,
                source=_made(Source, address=source),
                target=None if missing else _made(Target, address=target),  # then a detach follows
                initial_delivery_count=0 if receives else None,
                max_message_size=self._broker.largest,
            ),
            channel,
        )
        if receives:
            self._answers = handle
            return
        if missing:
            error = AMQPError(condition=b"amqp:not-found", description="no such entity", info=None)
            self._write(_made(frames.DetachFrame, handle=handle, closed=True, error=error), channel)
            return
        self._links[channel, handle] = _Link(entity, handle)
        self._write(
            _made(
                frames.FlowFrame,
                next_incoming_id=0,
                incoming_window=65_536,
                next_outgoing_id=0,
                outgoing_window=65_536,
                handle=handle,
                delivery_count=0,
                link_credit=10_000,
            ),
            channel,
        )

    def _transfer(self, channel: int, fields: list[Any]) -> None:
        link = self._links.get((channel, fields[0]))
        if link is None:  # it was refused, and the other side had not read that yet
            return
        link.payload += fields[-1]
        if fields[5]:
            return
        payload, link.payload = bytes(link.payload), bytearray()
        outcome: Any = Accepted()
        asks = link.entity.startswith("$")
        if not asks and self._broker.refusal is not None:
            condition = self._broker.refusal.encode()
            outcome = Rejected(error=AMQPError(condition=condition, description="refused", info=None))
        elif not asks:
            self._broker.keep(link.entity, payload, fields[3])
        settled = {"first": fields[1], "last": fields[1], "settled": True, "state": outcome}
        self._write(_made(frames.DispositionFrame, role=True, **settled), channel)
        if asks:
            self._respond(channel, payload)

    def _respond(self, channel: int, payload: bytes) -> None:
        """The answer to a token, or to a question about an event hub."""
        asked: Any = decode_payload(memoryview(payload))
        answer = Message(
            properties=Properties(correlation_id=asked.properties.message_id),
            application_properties={"status-code": 200, "status-description": "OK"},
            value={"name": b"orders", "type": b"", "created_at": 0, "partition_count": 1, "partition_ids": [b"0"]},
        )
        encoded = bytearray()
        encode_payload(encoded, answer)
        self._write(
            _made(
                frames.TransferFrame,
                handle=self._answers,
                delivery_id=self._deliveries,
                delivery_tag=str(self._deliveries).encode(),
                message_format=0,
                settled=True,
                more=False,
                batchable=False,
                payload=bytes(encoded),
            ),
            channel,
        )
        self._deliveries += 1

    def _read(self) -> tuple[int, bytes]:
        head = self._take(8)
        size = int.from_bytes(head[:4], "big")
        return int.from_bytes(head[6:8], "big"), self._take(size - 8)

    def _take(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            part = self._socket.recv(size - len(taken))
            if not part:
                raise ConnectionError("gone")
            taken += part
        return bytes(taken)

    def _write(self, frame: Any, channel: int = 0, *, kind: bytes = b"\x00") -> None:
        header, body = encode_frame(frame, kind)
        self._socket.sendall(header + channel.to_bytes(2, "big") + bytes(body or b""))


def _address(terminus: Any) -> str:
    found = terminus[0] if isinstance(terminus, list | tuple) else getattr(terminus, "address", None)
    return "" if found is None else _text(found)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _texts(values: Any) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in (values or {}).items()}


def _made(kind: Any, **fields: Any) -> Any:
    """A frame with these fields, and none of the others."""
    return kind(**{name: fields.get(name) for name in kind._fields})
