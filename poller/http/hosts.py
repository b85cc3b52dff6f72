"""Which names this server answers to: a page of another site whose name leads here (DNS rebinding) gets nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address, ip_address

from poller.errors import ConfigError

HOSTS = "POLLER_HTTP_HOSTS"
"""The setting that lists further names, separated by commas."""
OF_THE_SITE = "WEBSITE_HOSTNAME"
"""Where Azure says what a function app is called."""

PLACE = r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_.-]{1,253})(?::(?P<port>[0-9]{1,5}))?"
"""A name or an address, with or without a port."""
_HOST = re.compile(PLACE)


class Hosts:
    """Loopback, and what is listed. Ports are not compared: a proxy chooses them."""

    def __init__(self, listed: Iterable[str] = ()) -> None:
        self._listed = frozenset(map(_normal, listed))

    def accept(self, host: str) -> bool:
        """True if a request with this `Host` is meant for us."""
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = _normal(match["name"])
        return name in self._listed or is_loopback(name)


def is_loopback(name: str) -> bool:
    """True if a host's name or address means this machine to every program that uses it."""
    if name == "localhost":
        return True
    try:
        address = ip_address(name.strip("[]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def names_loopback(host: str) -> bool:
    """True if a `Host` names this machine."""
    match = _HOST.fullmatch(host)
    return match is not None and is_loopback(_normal(match["name"]))


def listed_hosts(environ: Mapping[str, str]) -> list[str]:
    """What the settings list. Raises: ConfigError (an entry that is not a host's name, such as one with a port)."""
    found = [name for name in (part.strip() for part in environ.get(HOSTS, "").split(",")) if name]
    for name in found:
        match = _HOST.fullmatch(name)
        if (match is None or match["name"] != name) and not _is_address(name):
            raise ConfigError(
                f"The setting {HOSTS} lists something that is not a host's name, in place {found.index(name) + 1}.",
                key=HOSTS,
                next_step="List names without scheme, port or path: poller.example.com,10.0.0.7",
            )
    site = environ.get(OF_THE_SITE, "").strip()
    return [*found, *([site] if site and _HOST.fullmatch(site) else [])]


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _normal(name: str) -> str:
    """In lower case; an address in its shortest form, without brackets."""
    match = _HOST.fullmatch(name)
    bare = (match["name"] if match is not None else name).strip("[]").lower()
    try:
        return str(ip_address(bare))
    except ValueError:
        return bare
