"""Which storage account a configuration means: connection strings, and app settings as Azure Functions names them.

Pure: nothing here connects or imports the SDK. No message repeats a value, since any of them may be a secret.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from poller.errors import ConfigError
from poller.tls import is_loopback

KEY = "state.connection"
_DEVELOPMENT_ACCOUNT = "devstoreaccount1"
# Published, and the same in every emulator: https://learn.microsoft.com/azure/storage/common/storage-use-azurite
_DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_DEVELOPMENT_PORT = 10000
_CONTAINER = re.compile(r"(?=.{3,63}\Z)[a-z0-9]+(-[a-z0-9]+)*\Z|\$(root|web|logs)\Z")


@dataclass(frozen=True, slots=True)
class Identity:
    """An account reached without a key. `credential`: `default` or `managedidentity`."""

    account_url: str
    client_id: str | None
    credential: str


def expand_development_storage(connection_string: str) -> str:
    """Write `UseDevelopmentStorage=true` (with `DevelopmentStorageProxyUri`, if given) out in full; leave others alone.

    The SDK knows the short form only in its newest versions, and never the proxy.
    """
    parts = _parts(connection_string)
    if parts.get("usedevelopmentstorage", "").strip().lower() != "true":
        return connection_string
    proxy = urlsplit(parts.get("developmentstorageproxyuri", "") or "http://127.0.0.1")
    if proxy.scheme not in {"http", "https"} or not proxy.hostname:
        raise ConfigError(
            f"DevelopmentStorageProxyUri in the connection string of {KEY} is no http or https address.",
            key=KEY,
            next_step="Write it as http://host, such as DevelopmentStorageProxyUri=http://azurite.",
        )
    host = f"[{proxy.hostname}]" if ":" in proxy.hostname else proxy.hostname
    endpoint = f"{proxy.scheme}://{host}:{proxy.port or _DEVELOPMENT_PORT}/{_DEVELOPMENT_ACCOUNT}"
    return (
        f"DefaultEndpointsProtocol={proxy.scheme};AccountName={_DEVELOPMENT_ACCOUNT};"
        f"AccountKey={_DEVELOPMENT_KEY};BlobEndpoint={endpoint};"
    )


def is_development(connection_string: str) -> bool:
    """Whether it is of an emulator, whose key everybody knows."""
    return _parts(expand_development_storage(connection_string)).get("accountkey") == _DEVELOPMENT_KEY


def check_account_key(connection_string: str) -> None:
    """Refuse a key that was cut or pasted wrongly: the SDK finds out only when it signs the first request.

    Raises: ConfigError.
    """
    try:
        base64.b64decode(_parts(connection_string).get("accountkey", ""), validate=True)
    except ValueError:
        raise ConfigError(
            f"AccountKey in the connection string of {KEY} is not complete base64.",
            key=KEY,
            next_step="Copy the whole connection string again from the account's page 'Access keys'.",
        ) from None


def check_transport(connection_string: str) -> None:
    """Refuse a key or a SAS token that would leave this machine in clear text: whoever reads a token has it.

    The emulator's published key is let through, so that containers of one machine may reach Azurite by name.
    Raises: ConfigError.
    """
    parts = _parts(expand_development_storage(connection_string))
    secret = parts.get("sharedaccesssignature") or parts.get("accountkey")
    endpoint = urlsplit(parts.get("blobendpoint", ""))
    plain = endpoint.scheme == "http" or (
        not endpoint.scheme and parts.get("defaultendpointsprotocol", "https").strip().lower() == "http"
    )
    if not plain or not secret or secret == _DEVELOPMENT_KEY or is_loopback(endpoint.hostname or ""):
        return
    raise ConfigError(
        f"The connection string of {KEY} leads over plain http to another machine: everybody on the way could read its "
        "key or SAS token, or change what is sent.",
        key=KEY,
        next_step="Write https: in BlobEndpoint, or DefaultEndpointsProtocol=https.",
    )


def from_environment(name: str, environ: Mapping[str, str]) -> str | Identity:
    """The connection string, or the connection by identity, that the settings named `name` hold.

    Looked for, in this order and without regard to case, as Functions does: `NAME`, then `NAME__blobServiceUri`
    or `NAME__accountName` (with `NAME__clientId` and `NAME__credential` beside them); then the same with
    `AzureWebJobs` in front of the name.

    Raises: ConfigError, naming the key and every setting that was looked for.
    """
    settings = {key.lower(): value for key, value in environ.items() if value.strip()}
    prefixes = [name] if name.lower().startswith("azurewebjobs") else [name, f"AzureWebJobs{name}"]
    for prefix in prefixes:
        connection_string = settings.get(prefix.lower())
        if connection_string is not None:
            return connection_string
        identity = _identity(prefix, settings)
        if identity is not None:
            return identity
    looked_for = [f"{prefix}{rest}" for prefix in prefixes for rest in ("", "__blobServiceUri", "__accountName")]
    raise ConfigError(
        f'{KEY} = "{name}" names no app setting that is set; looked for {", ".join(looked_for)}.',
        key=KEY,
        next_step=f"Set {name} to a connection string (UseDevelopmentStorage=true for Azurite), "
        f"or {name}__accountName to sign in with an identity.",
    )


def check_container(container: str) -> str:
    """The container's name, if it can be one.

    Raises: ConfigError. Rule: https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers
    """
    if _CONTAINER.match(container) is None:
        raise ConfigError(
            f"{container!r} cannot be the name of a blob container.",
            key="state.container",
            next_step="Use 3 to 63 lower-case letters, digits and single hyphens, such as db-state.",
        )
    return container


def _identity(prefix: str, settings: Mapping[str, str]) -> Identity | None:
    def setting(rest: str) -> str | None:
        return settings.get(f"{prefix}__{rest}".lower())

    account_url, account_name = setting("blobServiceUri"), setting("accountName")
    if account_url is None and account_name is None:
        return None
    credential = (setting("credential") or "default").lower()
    if credential not in {"default", "managedidentity"}:
        raise ConfigError(
            f"{prefix}__credential is not a way to sign in that is supported here.",
            key=KEY,
            next_step=f"Set it to managedidentity, or leave {prefix}__credential out.",
        )
    url = account_url or f"https://{account_name}.blob.core.windows.net"
    return Identity(url, setting("clientId"), credential)


def _parts(connection_string: str) -> dict[str, str]:
    pairs = (part.split("=", 1) for part in connection_string.split(";") if "=" in part)
    return {key.strip().lower(): value for key, value in pairs}
