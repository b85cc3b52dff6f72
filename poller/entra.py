"""Microsoft Entra identities: which one a setting names, and its credential, made once per process.

`azure.identity` is imported when a credential is first asked for. A credential keeps its tokens, and renews them before
they expire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poller import forks
from poller.errors import ConfigError

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

_MANAGED = "managedidentity"
LIMITS: dict[str, Any] = {"connection_timeout": 5.0, "read_timeout": 10.0, "retry_total": 1}
"""The limits of each request for a token: seconds, and how often it is sent again. Those of the SDK let an endpoint
that says nothing hold a tick, a heartbeat or a worker's end for a quarter of an hour. Who needs a token asks again
anyway."""
_made: dict[tuple[int, Any, str | None], TokenCredential] = {}


@dataclass(frozen=True, slots=True)
class Identity:
    """The account that signs in.

    Attributes:
        client_id: of a user-assigned identity; None for the one that the environment gives.
        credential: `default` (DefaultAzureCredential) or `managedidentity`.
    """

    client_id: str | None = None
    credential: str = "default"

    @property
    def managed(self) -> bool:
        """True if it is a managed identity, and nothing else is tried."""
        return self.credential == _MANAGED

    def __str__(self) -> str:
        kind = "managed identity" if self.managed else "identity"
        return f"the {kind} with client id {self.client_id}" if self.client_id else f"this app's own {kind}"


def read_identity(prefix: str, settings: Mapping[str, str], *, key: str) -> Identity:
    """The identity in the app settings `PREFIX__clientId` and `PREFIX__credential`, as Functions names them, in letters
    of any case.

    Args:
        key: of the configuration that names the prefix, for the error.
    Raises: ConfigError.
    """
    found = {name.lower(): value for name, value in settings.items() if value.strip()}
    credential = found.get(f"{prefix}__credential".lower(), "default").lower()
    if credential not in {"default", _MANAGED}:
        raise ConfigError(
            f"{prefix}__credential is not a supported way to sign in.",
            key=key,
            next_step=f"Set it to managedidentity, or leave {prefix}__credential out.",
        )
    return Identity(found.get(f"{prefix}__clientId".lower()), credential)


def credential_of(identity: Identity) -> TokenCredential:
    """Its credential: one for all that sign in with it in this process. It has connections, which a child process must
    not share with its parent. Raises: what `azure.identity` raises."""
    from azure.identity import DefaultAzureCredential, ManagedIdentityCredential

    kind = ManagedIdentityCredential if identity.managed else DefaultAzureCredential
    known = forks.generation(), kind, identity.client_id
    found = _made.get(known)
    if found is None:
        name = "client_id" if identity.managed else "managed_identity_client_id"
        # Without it AZURE_CLIENT_ID counts, which None would hide.
        given: dict[str, Any] = {name: identity.client_id} if identity.client_id else {}
        made = kind(**given, **LIMITS)
        found = _made.setdefault(known, made)  # of another thread's and ours, the first
    return found


def renew(instead_of: TokenCredential) -> None:
    """From now on another credential, which has no token yet, unless another thread renewed it meanwhile."""
    for known, made in list(_made.items()):
        if made is instead_of:
            _made.pop(known, None)
