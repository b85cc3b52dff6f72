"""Who may see details: callers with the token, compared in constant time; it is never logged, and never in a link."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from poller.errors import ConfigError
from poller.files import OTHERS
from poller.http.messages import Request

TOKEN = "POLLER_HTTP_TOKEN"  # noqa: S105 - the setting's name
"""The setting that holds the token."""
SHORTEST, LONGEST = 16, 1024
"""Characters of a token."""
_KEY, _AUTHORIZATION = "x-functions-key", "authorization"


class Keys:
    """The token that a caller must know; or none, and then every caller may see details.

    Args:
        token: at least 16 printable ASCII characters without a space. None: there is no token.
        closed: without a token, nobody may see details.
    """

    def __init__(self, token: str | None, *, closed: bool = False) -> None:
        self._digest = None if token is None else _digest(token)
        self._open = token is None and not closed

    def allow(self, request: Request) -> bool:
        """Whether the caller may see details."""
        if self._digest is None:
            return self._open
        allowed = False
        for key in _given(request):
            allowed |= hmac.compare_digest(_digest(key), self._digest)
        return allowed

    @staticmethod
    def unclear(request: Request) -> bool:
        """Whether the request says more than once who asks: what stands before us may have looked at the other one."""
        return any(len(request.values(name)) > 1 for name in (_KEY, _AUTHORIZATION))


def _given(request: Request) -> list[str]:
    keys = request.values(_KEY)
    for value in request.values(_AUTHORIZATION):
        scheme, _, key = value.partition(" ")
        if scheme.lower() == "bearer":
            keys.append(key.strip(" "))
    return keys


def _digest(key: str) -> bytes:
    """Of the same length whatever the key's is."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def read_token(environ: Mapping[str, str], file: Path | None = None) -> str | None:
    """The token of a file, or of the setting `POLLER_HTTP_TOKEN`; None where neither is given.

    Raises: ConfigError: both are given; a token that is empty, short, or cannot stand in a header; a file that cannot
        be read, or that others than its owner may read.
    """
    setting = environ.get(TOKEN)
    if file is None:
        return None if setting is None else _checked(setting, TOKEN, f"the setting {TOKEN}")
    if setting is not None:
        raise ConfigError(
            f"The setting {TOKEN} and a file both give the token of the HTTP endpoints.",
            key=TOKEN,
            next_step="Give one of them.",
        )
    return _checked(_content(file), str(file), f"the file {file}")


def _content(file: Path) -> str:
    try:
        # A pipe would be waited for.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
        with os.fdopen(os.open(file, flags), "rb") as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ConfigError(f"{file} is not a regular file.", key=str(file), next_step="Name a file.")
            if sys.platform != "win32" and found.st_mode & OTHERS:
                raise ConfigError(
                    f"Others than its owner may use {file}, which holds the token of the HTTP endpoints.",
                    key=str(file),
                    next_step=f"Run: chmod 600 {file}",
                )
            return opened.read(LONGEST + 3).decode("ascii", "replace")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError(
            f"{file}: the token of the HTTP endpoints cannot be read: {why}.", key=str(file), next_step="See --help."
        ) from error


def _checked(text: str, key: str, where: str) -> str:
    """The token, without the line's end. What is wrong with it is said without it."""
    token = text.removesuffix("\n").removesuffix("\r")
    wrong = (
        f"has fewer than {SHORTEST} characters"
        if len(token) < SHORTEST
        else f"has more than {LONGEST} characters"
        if len(token) > LONGEST
        else "has characters other than printable ASCII, or a space"
        if not all("!" <= c <= "~" for c in token)
        else ""
    )
    if wrong:
        raise ConfigError(
            f"The token of the HTTP endpoints, in {where}, {wrong}.",
            key=key,
            next_step="Make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return token
