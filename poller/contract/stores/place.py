"""Where a store's documents live, as the laws need it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from poller.model.limits import LARGEST_BODY
from poller.ports import StateStore


@dataclass
class Place:
    """Somewhere that documents live, and none does yet.

    Attributes:
        make: gives one more store on it, as another process would have.
        delete: removes a document past the store, as a person would.
        refuses: True if the store refuses a document of several megabytes.
        replaces: bytes of the largest one that takes another's place.
        late: by how much `Written.modified_at` may be later than what a read says.
    """

    make: Callable[[], StateStore]
    delete: Callable[[str], None]
    refuses: bool = False
    replaces: int = LARGEST_BODY
    late: timedelta = timedelta(0)
    opened: list[StateStore] = field(default_factory=list)

    def open(self) -> StateStore:
        """One more store, which is closed with the test."""
        store = self.make()
        self.opened.append(store)
        return store

    def close(self) -> None:
        """Close all stores that were opened."""
        for store in self.opened:
            store.close()


@pytest.fixture
def store(place: Place) -> StateStore:
    """A store on the place of the test."""
    return place.open()
