"""A proxy in front of Azurite that makes faults, and fleets of workers that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.resilience.faults.proxy import FaultProxy
from tests.resilience.kills.fleet import Fleet
from tests.support.azurite import Azurite


@pytest.fixture
def proxy(azurite: Azurite) -> Iterator[FaultProxy]:
    """A proxy of this test's own in front of the session's Azurite."""
    with FaultProxy("127.0.0.1", azurite.port) as running:
        yield running


@pytest.fixture
def fleets(azurite: Azurite, container: str, postgres_db: str, tmp_path: Path) -> Iterator[Callable[..., Fleet]]:
    """Makes a fleet on a fresh database and container: `fleets(options=..., pace=...)`."""
    made: list[Fleet] = []

    def make(**options: Any) -> Fleet:
        chosen = {"connection": azurite.connection_string, "container": container, **options}
        made.append(Fleet(tmp_path, postgres_db, **chosen))
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()
