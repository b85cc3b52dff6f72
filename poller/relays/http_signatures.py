"""Signatures of the relay `http`, by the scheme of Standard Webhooks (https://www.standardwebhooks.com).

A signature is over the id, the time and the body of a request, so that a receiver knows that a body is the sender's,
for which request it was made, and how old it is. What keeps repeats out is the receiver's memory of ids.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

from poller.errors import ConfigError

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
PREFIX = "whsec_"
"""What a secret begins with; base64 of its bytes follows."""
LEAST, MOST = 24, 64
"""Bytes of a secret, as the scheme has them."""


class Signer:
    """Signs with each of its secrets. None of them is ever shown.

    Args:
        text: the secrets, separated by spaces.
        name: of the variable that holds them, for the error. key: of the setting that names it.
    Raises: ConfigError, without a part of the text.
    """

    def __init__(self, text: str, *, name: str, key: str) -> None:
        self._secrets = _secrets(text, name, key)

    def headers(self, id_: str, seconds: int, body: bytes) -> dict[str, str]:
        """The headers of a request.

        Args:
            id_: without a dot, the same whenever the request is sent again.
            seconds: since 1970 in UTC, when it is sent. body: before it is compressed.
        """
        signed = b"%s.%d.%s" % (id_.encode(), seconds, body)
        made = [base64.b64encode(hmac.new(one, signed, hashlib.sha256).digest()).decode() for one in self._secrets]
        return {ID: id_, TIMESTAMP: str(seconds), SIGNATURE: " ".join(f"v1,{one}" for one in made)}


def _secrets(text: str, name: str, key: str) -> Sequence[bytes]:
    found = []
    for number, written in enumerate(text.split(), 1):
        try:
            secret = base64.b64decode(written.removeprefix(PREFIX), validate=True)
        except (ValueError, binascii.Error):
            secret = b""
        if not written.startswith(PREFIX) or not LEAST <= len(secret) <= MOST:
            raise ConfigError(
                f"names the environment variable {name}, whose secret number {number} is not {PREFIX} and the base64 "
                f"of {LEAST} to {MOST} bytes.",
                key=key,
                next_step=f"Make one: python -c \"import base64, os; print('{PREFIX}' + "
                'base64.b64encode(os.urandom(32)).decode())"; separate several by spaces.',
            )
        found.append(secret)
    return found
