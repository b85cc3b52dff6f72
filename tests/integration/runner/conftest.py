"""A world that ends with its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.runner.fakes import World


@pytest.fixture
def worlds() -> Iterator[Callable[..., World]]:
    """Makes worlds: `worlds(rows=25, batch_size=10, lease_ttl="60s", ...)`."""
    made: list[World] = []

    def make(rows: int = 0, **options: Any) -> World:
        made.append(World(rows, **options))
        return made[-1]

    yield make
    for world in made:
        world.close()
