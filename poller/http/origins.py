"""Where a page stands that asks for a change: only our own may."""

from __future__ import annotations

import re

from poller.http.hosts import is_loopback

_PLACE = r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_.-]{1,253})(?::(?P<port>[0-9]{1,5}))?"
_HOST = re.compile(_PLACE)
_ORIGIN = re.compile(r"(?P<scheme>https?)://" + _PLACE)
_PORTS = {"http": 80, "https": 443}


def same_origin(origin: str, host: str) -> bool:
    """True if a page of this `Origin` was served under this `Host`: the same name and port.

    A proxy that speaks TLS before us does not say so in `Host`, so the scheme is the page's own, with its usual port.
    Only on this machine may it be `http`: elsewhere a machine on the way could have written such a page.
    """
    page, ours = _ORIGIN.fullmatch(origin), _HOST.fullmatch(host)
    if page is None or ours is None or page["name"].lower() != ours["name"].lower():
        return False
    usual = _PORTS[page["scheme"]]
    if int(page["port"] or usual) != int(ours["port"] or usual):
        return False
    return page["scheme"] == "https" or is_loopback(page["name"].lower())
