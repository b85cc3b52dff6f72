"""A private S3 service on a free port: moto's server, in a child process.

It answers like S3 as far as moto does, in memory. Its check of a condition and the write that follows are two steps of
Python, which two threads may take at once, and S3's are one: so requests are served one after the other here.
"""

from __future__ import annotations

import sys
import uuid
from types import TracebackType
from typing import Any, Self

from tests.support.services import REPOSITORY, Service, Unavailable, free_port, listening, private_directory

REGION = "us-east-1"
ENVIRON = {
    "AWS_ACCESS_KEY_ID": "AKIATEST",
    "AWS_SECRET_ACCESS_KEY": "c2VjcmV0LWtleQ",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What boto3 signs in with: moto accepts any."""


class Moto:
    """One server; its buckets end with it."""

    def __init__(self) -> None:
        self.port = free_port()
        self.log = private_directory() / "moto.log"
        self._client: Any = None
        self._service = Service(
            "moto",
            [sys.executable, "-c", "from tests.support.moto import serve; serve()", str(self.port)],
            log=self.log,
            env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin", **ENVIRON},
        )

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> Any:
        """A client of boto3's own, past the store."""
        import boto3

        if self._client is None:
            self._client = boto3.session.Session(
                aws_access_key_id=ENVIRON["AWS_ACCESS_KEY_ID"],
                aws_secret_access_key=ENVIRON["AWS_SECRET_ACCESS_KEY"],
                region_name=REGION,
            ).client("s3", endpoint_url=self.endpoint)
        return self._client

    def new_bucket(self) -> str:
        """A new bucket."""
        name = f"test-{uuid.uuid4().hex[:20]}"
        self.client().create_bucket(Bucket=name)
        return name

    def __enter__(self) -> Self:
        self._service.start(lambda: listening(self.port))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._service.kill()


def start() -> Moto:
    """One that is to be entered. Raises: Unavailable where moto or boto3 is not installed."""
    try:
        import boto3  # noqa: F401
        import moto.server  # noqa: F401
    except ImportError as missing:
        raise Unavailable(f"no S3 service: pip install 'moto[server]' boto3 ({missing.name} is missing)") from None
    return Moto()


def serve() -> None:
    """Serve, in the child process, until it is killed."""
    from threading import Lock

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    app, one_at_a_time = DomainDispatcherApplication(create_backend_app), Lock()

    def serialised(environ: Any, start_response: Any) -> list[bytes]:
        with one_at_a_time:
            return list(app(environ, start_response))

    run_simple("127.0.0.1", int(sys.argv[1]), serialised, threaded=True)
