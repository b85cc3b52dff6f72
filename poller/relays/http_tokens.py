"""Tokens of Microsoft Entra for the relay `http`: whose they are, for which application, and how long they are kept."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from poller import entra, forks
from poller.entra import Identity
from poller.relays.messages import retry_later

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken, TokenCredential

EARLY = 300
"""Seconds before it expires from which a token is not used any more: it may be on its way for a while, and clocks
differ."""
STEP = "Sign in (az login), or give this app a managed identity that may have tokens for the application."


class Bearer:
    """The token for one application. May be used by several threads: at worst two of them ask at once.

    Args:
        resource: the application, such as `api://orders`. identity: who signs in.
    """

    def __init__(self, resource: str, identity: Identity) -> None:
        self._scope = f"{resource}/.default"
        self._identity = identity
        self._kept: tuple[int, TokenCredential, AccessToken] | None = None

    def __str__(self) -> str:
        return str(self._identity)

    def header(self) -> str:
        """The value of `Authorization`, with a token that is valid now. Raises: RetryLater, if none is available."""
        kept = self._kept
        if kept is None or kept[0] != forks.generation() or kept[2].expires_on - EARLY <= time.time():
            kept = self._fetched()
            self._kept = kept
        return f"Bearer {kept[2].token}"

    def doubt(self) -> None:
        """The endpoint did not take it: the next one comes from a credential that has none yet."""
        kept, self._kept = self._kept, None
        if kept is not None:
            entra.renew(kept[1])

    def _fetched(self) -> tuple[int, TokenCredential, AccessToken]:
        try:
            credential = entra.credential_of(self._identity)
            token = credential.get_token(self._scope)
            usable = re.fullmatch(r"[!-~]+", token.token) is not None
        except Exception as error:  # noqa: BLE001 - of any part of the chain; their texts are not shown
            said = re.search(r"AADSTS\d+", str(error))
            why = f"{type(error).__name__}{f', {said[0]}' if said else ''}"
        else:
            if usable:
                return forks.generation(), credential, token
            why = "what was issued is not a token"
        raise retry_later(f"no token for {self._scope.removesuffix('/.default')} as {self._identity}: {why}")
