"""What the proxy knows of each request, and the log that request budgets are asserted on."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from poller.stores.cosmos import items
from poller.stores.table.keys import name_of
from tests.resilience.faults.fault import Fault
from tests.resilience.faults.wire import Headers, Message

STATE = "/state/"
"""Paths of state documents contain this (design: `state/{app_name}/{poller_name}.json`)."""


_ENTITY = re.compile(r"(/[^/]+/\w+)\(PartitionKey='(.*)',RowKey='(.*)'\)")
_ITEM = re.compile(r"/dbs/([^/]+)/colls/([^/]+)/docs/(?:([^/]+)/)?")


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the client sent it. `number` counts arrivals from 1, and starts again at `reset`.

    One about an entity of a table, or an item of Cosmos DB, is shown as it would be for a blob of that name, so that
    plans and budgets are the same: /account/table/state/shop/orders.json. `inserts`: it is a POST there, and is shown
    as a PUT.
    """

    number: int
    method: str
    path: str
    query: str
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)
    inserts: bool = False

    @classmethod
    def of(cls, number: int, message: Message) -> Request:
        """Read off the request line; the path is unquoted."""
        method, target, _ = message.start.split(" ", 2)
        url = urlsplit(target)
        path = unquote(url.path)
        if entity := _ENTITY.fullmatch(path):
            path = f"{entity[1]}/{name_of(entity[2], entity[3])}"
        inserted = json.loads(message.body) if method == "POST" and message.body.startswith(b"{") else {}
        if inserts := "PartitionKey" in inserted:
            method, path = "PUT", f"{path}/{name_of(inserted['PartitionKey'], inserted['RowKey'])}"
        elif item := _ITEM.fullmatch(path):
            inserts = method == "POST" and "id" in inserted
            method = "PUT" if inserts else method
            path = f"/{item[1]}/{item[2]}/{items.name_of(item[3] or str(inserted.get('id', '')))}"
        return cls(number, method, path, url.query, message.headers, message.body, inserts)

    def header(self, name: str) -> str | None:
        """A header's value, its name in any case."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)

    @property
    def if_match(self) -> str | None:
        """The ETag that must still be the blob's."""
        return self.header("if-match")

    @property
    def if_none_match(self) -> str | None:
        """The ETag that must not be the blob's; `*` on a create."""
        return self.header("if-none-match")

    @property
    def is_blob_write(self) -> bool:
        """Whether it replaces a blob as a whole (Put Blob), so that its body is the new document."""
        return self.method == "PUT" and self.header("x-ms-blob-type") is not None

    @property
    def is_create(self) -> bool:
        """Whether it writes a blob only if there is none."""
        return self.inserts or (self.method == "PUT" and self.if_none_match == "*")

    @property
    def blob(self) -> str:
        """The blob's name inside its container; empty for requests about a container or the account.

        Addresses name the account in the path, as the emulator has it: /account/container/blob."""
        parts = self.path.split("/", 3)
        return parts[3] if len(parts) == 4 else ""

    @property
    def comp(self) -> str | None:
        """The `comp` of the query: the sub-resource, such as `list`, `lease` or `appendblock`."""
        return next(iter(parse_qs(self.query).get("comp", ())), None)


class Record:
    """One request's fate. Fields are filled in as it unfolds; times are of CLOCK_MONOTONIC, in seconds."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.arrived = time.monotonic()
        self.fault: Fault | None = None
        self.status: int | None = None
        """What status the client got; None: nothing (yet)."""
        self.answered: float | None = None
        """When the client got its answer, or its failure."""
        self.upstream: list[int] = []
        """The server's own answers: none, one, or two of a request that was delivered twice."""
        self.etags: list[str] = []
        """The ETags that the server's successes gave the blob; more than one only if a duplicate landed twice."""
        self.landed: float | None = None
        """When the server's last answer came."""
        self.finished = threading.Event()
        """Set when nothing more will happen to the request, at the server and at the client."""

    @property
    def applied(self) -> bool:
        """Whether the server has done what was asked, whatever the client was shown."""
        return any(200 <= status < 300 for status in self.upstream)

    def __repr__(self) -> str:
        name = self.fault.name if self.fault else "-"
        what = f"{self.request.number} {self.request.method} {self.request.path}"
        return f"<{what} server={self.upstream} client={self.status} fault={name}>"

    def landed_as(self, answer: Message) -> None:
        """Note an answer of the server."""
        self.landed = time.monotonic()
        self.upstream.append(answer.status)
        etag = answer.get("etag")
        if etag is not None and 200 <= answer.status < 300:
            self.etags.append(etag)

    def answers(self, status: int | None) -> None:
        """Note what the client is about to get."""
        self.answered = time.monotonic()
        self.status = status


class RequestLog:
    """The records in order of arrival. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: list[Record] = []
        self._arrived = 0

    def add(self, message: Message) -> Record:
        """A record for a request that has just arrived whole."""
        with self._lock:
            self._arrived += 1
            record = Record(Request.of(self._arrived, message))
            self._records.append(record)
            return record

    def reset(self) -> None:
        """Forget everything; requests still under way are not listed again."""
        with self._lock:
            self._records = []
            self._arrived = 0

    def __iter__(self) -> Iterator[Record]:
        with self._lock:
            return iter(list(self._records))

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: int) -> Record:
        with self._lock:
            return self._records[index]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self)) or "<no requests>"

    def select(
        self,
        method: str | None = None,
        path_contains: str = "",
        where: Callable[[Record], bool] = lambda _: True,
    ) -> list[Record]:
        """The records of that method and path for which `where` holds."""
        return [
            one
            for one in self
            if (method is None or one.request.method == method) and path_contains in one.request.path and where(one)
        ]

    def counts(self, path_contains: str = STATE) -> dict[str, int]:
        """Requests by method; only methods that occurred. An idle tick is `{"GET": 1}`."""
        return dict(Counter(one.request.method for one in self.select(path_contains=path_contains)))
