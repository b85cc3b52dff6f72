"""A browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.browser import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all of a module: the loop that drives it would be in the way of others' loops."""
    with chromium() as started:
        yield started
