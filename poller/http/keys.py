"""Who may see details: callers with the token; and who may change something: callers with a key of its own beside it.
Both are compared in constant time, never logged, and never in a link."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from poller.errors import ConfigError
from poller.files import OTHERS
from poller.http.messages import Request

TOKEN = "POLLER_HTTP_TOKEN"  # noqa: S105 - the setting's name
"""The setting that holds the token."""
CHANGES_KEY = "POLLER_HTTP_CHANGES_KEY"
"""The setting that holds the key for changes."""
SHORTEST, LONGEST = 16, 1024
"""Characters of a token."""
_KEY, _AUTHORIZATION = "x-functions-key", "authorization"


class Keys:
    """The token that a caller must know; or none, and then every caller may see details.

    Args:
        token: at least 16 printable ASCII characters without a space. None: there is no token.
        closed: without a token, no caller may see details.
    """

    def __init__(self, token: str | None, *, closed: bool = False) -> None:
        self._digest = None if token is None else _digest(token)
        self._open = token is None and not closed

    def allow(self, request: Request) -> bool:
        """True if the caller may see details."""
        if self._digest is None:
            return self._open
        return _is_among((*request.values(_KEY), *_bearers(request)), self._digest)

    @staticmethod
    def unclear(request: Request) -> bool:
        """True if the request says more than once who asks: what stands before us may have looked at the other one."""
        return any(len(request.values(name)) > 1 for name in (_KEY, _AUTHORIZATION))


class ChangesKey:
    """The key that allows changes, to a caller who may look as well. It is taken from `Authorization: Bearer` alone.

    Args:
        key: at least 16 printable ASCII characters without a space, and not the token.
    """

    def __init__(self, key: str) -> None:
        self._digest = _digest(key)
        self._secret = key.encode()

    def allow(self, request: Request) -> bool:
        """True if the caller may change something."""
        return _is_among(_bearers(request), self._digest)

    def derived(self, purpose: str) -> bytes:
        """Another key, which every instance with this one derives alike, and from which this one cannot be found."""
        return hmac.digest(self._secret, purpose.encode(), "sha256")


def _is_among(given: Iterable[str], digest: bytes) -> bool:
    """True if one of the keys has this digest; each is compared, whatever the others are."""
    return any([hmac.compare_digest(_digest(key), digest) for key in given])  # noqa: C419 - all of them


def _bearers(request: Request) -> list[str]:
    parts = [value.partition(" ") for value in request.values(_AUTHORIZATION)]
    return [key.strip(" ") for scheme, _, key in parts if scheme.lower() == "bearer"]


def _digest(key: str) -> bytes:
    """The digest of a key; its length is that of every other."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def read_token(environ: Mapping[str, str], file: Path | None = None) -> str | None:
    """The token of a file, or of the setting `POLLER_HTTP_TOKEN`; None if neither is given.

    Raises: ConfigError: both are given; a token that is empty, short, or cannot be in a header; a file that cannot
        be read, or that others than its owner may read.
    """
    return _read(environ, file, TOKEN, "the token of the HTTP endpoints")


def read_changes_key(
    environ: Mapping[str, str], file: Path | None = None, *, token: str | None = None
) -> ChangesKey | None:
    """The key of a file, or of the setting `POLLER_HTTP_CHANGES_KEY`; None if neither is given: no changes.

    Args:
        token: the one that is enough to read, which this must not be.
    Raises: ConfigError, as `read_token`.
    """
    key = _read(environ, file, CHANGES_KEY, "the key for changes over HTTP")
    return None if key is None else as_changes_key(key, token=token)


def as_changes_key(key: str, *, token: str | None = None) -> ChangesKey:
    """The key as it is given. Raises: ConfigError, if it is the token."""
    if token is not None and hmac.compare_digest(_digest(key), _digest(token)):
        raise ConfigError(
            "The key for changes over HTTP is the token of the HTTP endpoints: every reader could make changes.",
            key=CHANGES_KEY,
            next_step="Give two different ones.",
        )
    return ChangesKey(key)


def new_changes_key() -> str:
    """A random key for changes, for a page that one person opens for a while."""
    return secrets.token_urlsafe(32)


def _read(environ: Mapping[str, str], file: Path | None, setting: str, what: str) -> str | None:
    """`what`: the token or the key, in words."""
    given = environ.get(setting)
    if file is None:
        return None if given is None else _checked(given, setting, what, f"the setting {setting}")
    if given is not None:
        raise ConfigError(
            f"The setting {setting} and a file both give {what}.", key=setting, next_step="Give one of them."
        )
    return _checked(_content(file, what), str(file), what, f"the file {file}")


def _content(file: Path, what: str) -> str:
    try:
        # A pipe would be waited for.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
        with os.fdopen(os.open(file, flags), "rb") as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ConfigError(f"{file} is not a regular file.", key=str(file), next_step="Name a file.")
            if sys.platform != "win32" and found.st_mode & OTHERS:
                raise ConfigError(
                    f"Others than its owner may use {file}, which holds {what}.",
                    key=str(file),
                    next_step=f"Run: chmod 600 {file}",
                )
            return opened.read(LONGEST + 3).decode("ascii", "replace")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError(f"{file}: {what} cannot be read: {why}.", key=str(file), next_step="See --help.") from error


def _checked(text: str, key: str, what: str, where: str) -> str:
    """The token or key, without the line's end. What is wrong with it is said without it."""
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
            f"{what[0].upper()}{what[1:]}, in {where}, {wrong}.",
            key=key,
            next_step="Make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return token
