"""Where a server listens: a port of this machine's own, unless another address is given."""

from __future__ import annotations

import re
import socket
import sys
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from poller.errors import ConfigError
from poller.http.hosts import is_loopback

LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"(?:(?:\[(?P<six>[^\[\]]+)\]|(?P<host>[^\[\]:]+)):)?(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """A place to listen at.

    Attributes:
        given: as it was written. host: its part before the port; the loopback address where it has none. place: what
            the operating system calls it.
    """

    given: str
    host: str
    family: socket.AddressFamily
    place: tuple[Any, ...]

    @property
    def loopback(self) -> bool:
        """True if only this machine can reach it."""
        return is_loopback(str(self.place[0]))

    @property
    def unspecified(self) -> bool:
        """True if it stands for every address of this machine, and so for none that a caller could name."""
        return ip_address(str(self.place[0]).partition("%")[0]).is_unspecified

    def listen(self, waiting: int) -> socket.socket:
        """A socket that listens here. Raises: ConfigError."""
        opened = socket.socket(self.family, socket.SOCK_STREAM)
        try:
            if sys.platform != "win32":  # there it would let another process take the same port
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind(self.place)
            opened.listen(waiting)
        except OSError as error:
            opened.close()
            raise ConfigError(
                f"--http {self.given}: nothing can listen there: {error.strerror or type(error).__name__}.",
                key="--http",
                next_step="Give a free port, or end the process that has this one.",
            ) from error
        return opened


def read_address(text: str) -> Address:
    """The address of `PORT`, `HOST:PORT` or `[IPv6]:PORT`. Raises: ConfigError."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65_535:
        raise ConfigError(
            f"--http {text}: not a port, and not HOST:PORT.", key="--http", next_step="For example: --http 8080"
        )
    host = found["six"] or found["host"] or LOOPBACK
    try:
        family, _, _, _, place = socket.getaddrinfo(host, int(found["port"]), type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"--http {text}: there is no host of this name.", key="--http", next_step="Give an address of this machine."
        ) from error
    return Address(text.strip(), host, family, place)
