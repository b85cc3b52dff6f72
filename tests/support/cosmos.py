"""A private Azure Cosmos DB on a free port: `@vercel/cosmosdb-server`, which `make` puts into `.tools`.

It keeps conditions on writes. It has no conditional reads (each GET is answered with 200), one partition, no
Last-Modified and no sub-status; `cosmos_answers` is a server for what it lacks. A read of an item that does not exist
is a 500 there, unless the request says that it may cross partitions: so this server adds that to each GET.
"""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.azurite import KEY, find_node
from tests.support.services import TOOLS, Service, Unavailable, free_port, listening, private_directory

DATABASE = "poller"
_SCRIPT = """
const { createHttpServer } = require(process.argv[1]);
const server = createHttpServer({ keepAlive: true });
const [answer] = server.listeners("request");
server.removeAllListeners("request");
server.on("request", (request, response) => {
  if (request.method === "GET") request.headers["x-ms-documentdb-query-enablecrosspartition"] = "true";
  answer(request, response);
});
server.listen(Number(process.argv[2]), "127.0.0.1");
"""


class CosmosServer:
    """One server; its containers end with it."""

    def __init__(self, library: Path) -> None:
        self.port = free_port()
        self._client: Any = None
        self._service = Service(
            "cosmosdb-server",
            [find_node(), "-e", _SCRIPT, library, str(self.port)],
            log=private_directory() / "cosmos.log",
        )

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def connection_string(self) -> str:
        """What an app setting holds for it."""
        return connection_string(self.endpoint)

    def new_container(self) -> str:
        """A new container."""
        from azure.cosmos import PartitionKey

        name = f"test-{uuid.uuid4().hex[:20]}"
        self.database().create_container(name, partition_key=PartitionKey(path="/app"))
        return name

    def database(self) -> Any:
        """The SDK's own client of the database, past the store."""
        from azure.cosmos import CosmosClient

        if self._client is None:
            self._client = CosmosClient(self.endpoint, credential=KEY, enable_endpoint_discovery=False)
        return self._client.create_database_if_not_exists(DATABASE)

    def __enter__(self) -> Self:
        self._service.start(lambda: listening(self.port))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._service.kill()


def connection_string(endpoint: str) -> str:
    """For a server of the tests; the key is Azurite's, which is public."""
    return f"AccountEndpoint={endpoint};AccountKey={KEY};"


def start() -> CosmosServer:
    """One that is to be entered. Raises: Unavailable where the server, Node.js or azure-cosmos is not there."""
    try:
        import azure.cosmos  # noqa: F401
    except ImportError:
        raise Unavailable("no azure-cosmos: pip install azure-cosmos") from None
    return CosmosServer(_find())


def _find() -> Path:
    """The library: `POLLER_TEST_COSMOS` (the folder of the package), then `.tools`, then beside a program on PATH."""
    folders = [os.environ.get("POLLER_TEST_COSMOS"), TOOLS / "node_modules" / "@vercel" / "cosmosdb-server"]
    if program := shutil.which("cosmosdb-server"):
        folders.append(Path(program).resolve().parents[1])
    for folder in folders:
        if folder and (found := Path(folder) / "lib" / "index.js").is_file():
            return found.resolve()
    raise Unavailable("no cosmosdb-server: run `make tools`, or name its folder in POLLER_TEST_COSMOS")


if __name__ == "__main__":  # for examples/stores, until it is interrupted
    import signal

    with start() as running:
        print(f'export COSMOS="{running.connection_string}"', flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
