"""Which Cosmos DB account is meant: by a connection string, or by app settings as Azure Functions names them. Nothing
here connects, and no message repeats a value that may be a secret."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from poller import entra
from poller.errors import ConfigError
from poller.tls import is_loopback

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

KEY = "state.connection"
_NAME = re.compile(r"[^/\\#?\s]{1,255}\Z")
_COPY = "Copy the connection string again from the account's page 'Keys', or set NAME__accountEndpoint for an identity."


@dataclass(frozen=True, slots=True)
class CosmosAccount:
    """An account's address, without a slash at its end, and what gives the credential for it."""

    endpoint: str
    credential: Callable[[], str | TokenCredential]


def from_connection_string(text: str) -> CosmosAccount:
    """The account of `AccountEndpoint=https://...;AccountKey=...;`.

    Raises: ConfigError, which repeats nothing of it.
    """
    pairs = (part.split("=", 1) for part in text.split(";") if "=" in part)
    parts = {name.strip().lower(): value.strip() for name, value in pairs}
    key = parts.get("accountkey", "")
    try:
        whole = bool(key) and bool(base64.b64decode(key, validate=True))
    except ValueError:
        whole = False
    if not whole:
        raise ConfigError(
            f"{KEY} leads to no connection string of Azure Cosmos DB, or to one whose AccountKey is not complete.",
            key=KEY,
            next_step=_COPY,
        )
    return CosmosAccount(_checked(parts.get("accountendpoint", "")), lambda: key)


def from_endpoint(endpoint: str, credential: Callable[[], TokenCredential]) -> CosmosAccount:
    """The account at an address, signed into with an identity. Raises: ConfigError."""
    return CosmosAccount(_checked(endpoint), credential)


def from_environment(name: str, environ: Mapping[str, str]) -> CosmosAccount:
    """The account in the settings named `name`, in letters of any case: `NAME`, a connection string, or
    `NAME__accountEndpoint` (with `NAME__clientId` and `NAME__credential`) for an identity.

    Raises: ConfigError, naming the key and every setting that was searched.
    """
    settings = {key.lower(): value for key, value in environ.items() if value.strip()}
    if text := settings.get(name.lower()):
        return from_connection_string(text)
    if endpoint := settings.get(f"{name}__accountEndpoint".lower()):
        who = entra.read_identity(name, settings, key=KEY)
        return from_endpoint(endpoint, lambda: entra.credential_of(who))
    raise ConfigError(
        f'{KEY} = "{name}" does not name an app setting that is set; looked for {name}, {name}__accountEndpoint.',
        key=KEY,
        next_step=f"Set {name} to the connection string of an Azure Cosmos DB account, or {name}__accountEndpoint to "
        "its https address to sign in with an identity.",
    )


def check_name(name: str, key: str) -> str:
    """The name of a database or container, if it is valid. Raises: ConfigError with `key`."""
    if _NAME.match(name) is None:
        raise ConfigError(
            f"{name!r} cannot be the name of a {key.rpartition('.')[2]} of Azure Cosmos DB.",
            key=key,
            next_step="Use 1 to 255 characters without spaces, slashes, # and ?.",
        )
    return name


def _checked(endpoint: str) -> str:
    """The address, if the key or token does not travel in clear text there."""
    try:
        parts = urlsplit(endpoint)
        _ = parts.port  # raises ValueError where it is not a number
    except ValueError:
        parts = urlsplit("")
    private = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not private or not parts.hostname or "@" in parts.netloc:
        raise ConfigError(
            f"{KEY} leads to no https address of an account.",
            key=KEY,
            next_step="Write it as https://ACCOUNT.documents.azure.com:443/.",
        )
    return f"{parts.scheme}://{parts.netloc}"
