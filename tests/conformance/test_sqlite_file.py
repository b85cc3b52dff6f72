"""A state file that is deleted or replaced under a store that is in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from poller.errors import StoreUnavailable
from poller.ports import Found
from poller.stores import SqlStore

NAME = "state/shop/orders.json"


def test_a_state_file_that_was_deleted_is_told_and_not_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    store = SqlStore(f"sqlite:///{file}")
    store.write(NAME, b"{}", if_tag=None)
    for path in tmp_path.iterdir():
        path.unlink()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="deleted"):
            store.read(NAME)
        with pytest.raises(StoreUnavailable, match="deleted"):
            store.write(NAME, b"{}", if_tag=None)
    assert not file.exists()
    store.close()


def test_a_state_file_that_was_put_back_from_a_copy_is_read_at_once(tmp_path: Path) -> None:
    stores = [SqlStore(f"sqlite:///{tmp_path / name}") for name in ("state.db", "copy.db")]
    for store, body in zip(stores, (b"{}", b'{"kept": 1}'), strict=True):
        store.write(NAME, body, if_tag=None)
        store.read(NAME)
    stores[1].close()
    for rest in tmp_path.glob("state.db-*"):
        rest.unlink()
    (tmp_path / "copy.db").replace(tmp_path / "state.db")
    found = stores[0].read(NAME)
    assert isinstance(found, Found)
    assert found.body == b'{"kept": 1}'
    stores[0].close()
