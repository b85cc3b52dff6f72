"""A connection of a command's own to a source's database: for a user who may do more than the poller's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from poller.databases import tokens
from poller.databases.urls import family_of, identify, place
from poller.errors import ConfigError, PollerError
from poller.sources.connection import read_url
from poller.sources.database import dialect_for
from poller.sources.faults import Scrubber, Where, driver_code, driver_text, to_error

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Connection

    from poller.entra import Identity


def url_of(setting: str, environ: Mapping[str, str], may: str, *, key: str) -> URL:
    """The URL in a setting that `key` names. `may`: what its user may do. Raises: ConfigError."""
    found = environ.get(setting)
    if not found:
        raise ConfigError(
            f"{key} names the setting {setting}, which is not set.",
            key=key,
            next_step=f"Set it to the URL of a user who may {may}.",
        )
    return read_url(found)


@contextmanager
def connected(
    url: URL, identity: Identity | None, table: str, *, error_text: bool, refused: Callable[[str], PollerError]
) -> Iterator[Connection]:
    """A connection in autocommit. `refused` makes the error for what is not the driver's. Raises: SourceError, for what
    the driver raises."""
    engine = tokens.open_engine(
        url,
        lambda _: {},
        key="url",
        identity=identity,
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
    )
    try:
        with engine.connect() as connection:
            yield connection
    except DBAPIError as error:
        where = Where(table, place(identify(url)), "the server's limit", str(identity or ""))
        said = driver_text(error) if error_text else driver_code(error)
        classified = dialect_for(family_of(url)).classify(error)
        raise to_error(classified, Scrubber.of(url)(said).rstrip("."), where) from None
    except SQLAlchemyError as error:
        raise refused(f"{table}: the database cannot be asked: {Scrubber.of(url)(str(error))}.") from None
    finally:
        engine.dispose()
