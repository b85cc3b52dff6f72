"""What the database servers have in common: a URL, fresh databases, and an end and a new start where they are ours."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, ClassVar, Self

from sqlalchemy.engine import URL, make_url

from tests.support.services import Service, Unavailable, wait_until


class DatabaseServer(ABC):
    """One server; its data outlives `stop` and `restart`. Its superuser has no password.

    Attributes:
        driver: SQLAlchemy's name for what speaks to it; default_port: where it listens unless it is set.
        quickly: what CREATE DATABASE ends with, so that it takes as little time as it can.
    """

    quickly = ""

    driver: ClassVar[str]
    default_port: ClassVar[int]

    def __init__(self, url: URL, service: Service | None) -> None:
        self._url = url
        self._service = service

    @classmethod
    def at(cls, url: str) -> Self:
        """A server that runs elsewhere: databases are made and dropped in it, it is not stopped."""
        return cls(make_url(url).set(drivername=cls.driver), None)

    @property
    def ours(self) -> bool:
        """Whether it was started here from local binaries, so that it can be stopped."""
        return self._service is not None

    @property
    def url(self) -> str:
        """SQLAlchemy URL of the maintenance database."""
        return self._url.render_as_string(hide_password=False)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._url.port or self.default_port

    def new_database(self) -> str:
        """Create an empty database and return its URL."""
        name = f"test_{uuid.uuid4().hex[:16]}"
        self.execute(f"CREATE DATABASE {name}{self.quickly}")
        return self._url.set(database=name).render_as_string(hide_password=False)

    @abstractmethod
    def drop_database(self, url: str) -> None:
        """Drop a database that `new_database` made, ending what would block the drop."""

    @abstractmethod
    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement in autocommit as superuser and return its rows, if it has any."""

    def stop(self) -> None:
        """Shut down, ending all sessions."""
        self._own().stop()

    def restart(self) -> None:
        """Stop it if it runs, and start it again on the same port with the same data."""
        self._own().stop()
        self._up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._service is not None:
            self._service.stop()

    def _own(self) -> Service:
        if self._service is None:
            raise Unavailable(f"{self._url.host}:{self._url.port} is not ours to stop: this needs local binaries")
        return self._service

    def _up(self) -> None:
        self._own().start(self._answers)

    def _wait(self, *, seconds: float) -> None:
        """For a server that somebody else starts."""
        wait_until(self._answers, f"{type(self).__name__} answers", seconds=seconds)

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it takes statements now."""
