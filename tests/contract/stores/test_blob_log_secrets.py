"""What the layers below the blob store log at DEBUG is cut by the same rules as every other text."""

from __future__ import annotations

import logging

import pytest

from poller.stores import BlobStore
from tests.support.azurite import Azurite

KEY = "A" * 86 + "=="


TEXTS = (
    "header: authorization: SharedKey shop:c2VjcmV0LXNpZ25hdHVyZQ==",
    "header: Authorization: Bearer eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9.eyJhdWQi.c2lnbmF0dXJl",
    f"AccountName=shop;AccountKey={KEY};EndpointSuffix=core.windows.net",
    f"key {KEY}",
    "PUT /db-state/a?sv=2022&sig=c2VjcmV0LXNpZ25hdHVyZQ%3D%3D&se=2030",
)


def test_no_shape_of_a_secret_is_logged(azurite: Azurite, caplog: pytest.LogCaptureFixture) -> None:
    BlobStore.from_connection_string(azurite.connection_string, "db-state").close()
    below = logging.getLogger("urllib3.connectionpool")
    for text in TEXTS:
        caplog.clear()
        with caplog.at_level(logging.DEBUG, below.name):
            below.debug("sent %s", text)
            below.debug(text)
        assert "***" in caplog.text
        assert all(secret not in caplog.text for secret in ("c2VjcmV0", "c2lnbmF0dXJl", KEY))
    assert "/db-state/a?sv=2022&sig=***&se=2030" in caplog.text
