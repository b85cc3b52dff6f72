"""A state file that is deleted or replaced under a store that is in use."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from poller.errors import StoreUnavailable
from poller.ports import Found
from poller.stores import SqlStore

NAME = "state/shop/orders.json"


def test_a_deleted_state_file_is_reported_and_not_begun_anew(tmp_path: Path) -> None:
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


def test_a_state_file_restored_from_a_copy_is_read_at_once(tmp_path: Path) -> None:
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


def test_only_its_owner_may_read_a_new_state_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = SqlStore(f"sqlite:///{tmp_path / 'state.db'}")
        store.write(NAME, b"{}", if_tag=None)
        found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        assert found == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}
        assert [one.severity for one in store.checkup(NAME)] == ["ok"]
        store.close()
    finally:
        os.umask(before)


def test_a_state_file_with_other_rights_is_left_so_and_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    file.touch()
    file.chmod(0o644)
    store = SqlStore(f"sqlite:///{file}")
    store.write(NAME, b"{}", if_tag=None)
    (found,) = store.checkup(NAME)
    assert (found.severity, found.fix) == ("warn", f"chmod 600 {file}")
    assert "0644" in found.message
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    store.close()


def test_a_planted_link_is_not_followed_to_make_a_state_file(tmp_path: Path) -> None:
    file, target = tmp_path / "state.db", tmp_path / "elsewhere"
    file.symlink_to(target)
    store = SqlStore(f"sqlite:///{file}")
    with pytest.raises(StoreUnavailable, match="a dangling link"):
        store.write(NAME, b"{}", if_tag=None)
    assert not target.exists()
    store.close()
