"""The SQL store where its URL, its file's place or this process is in no order: our errors, and no secret in them."""

from __future__ import annotations

import shutil
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.dialects.mssql.pyodbc import MSDialect_pyodbc

from poller.errors import ConfigError, StoreDenied, StoreError, StoreUnavailable
from poller.ports import Found
from poller.stores import SqlStore
from tests.support.services import free_port

NAME = "state/shop/orders.json"
SECRET = "topsecret"


@pytest.mark.parametrize("url", [f"postgresql+psycopg://user:p@x:{SECRET}@host/db", f"mysql://u@h:{SECRET}/db"])
def test_an_unreadable_url_is_reported_without_a_word_of_it(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        SqlStore(url)
    assert refused.value.key == "state.url"
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def _behind_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("no folder")


def _unreadable(folder: Path) -> None:
    """As of a share that is away: whatever is asked of the path fails (root may look into folders without rights)."""
    long = folder.with_name("x" * 300)
    folder.rename(folder.with_name("away"))
    folder.symlink_to(long)


def _in_a_circle(folder: Path) -> None:
    folder.rename(folder.with_name("away"))
    folder.symlink_to(folder)


@pytest.mark.parametrize("spoil", [_behind_a_file, _unreadable, _in_a_circle])
def test_a_state_file_that_cannot_be_looked_at_is_the_stores_error(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    """And no other: a heartbeat goes on after the store's errors, and would end by another."""
    folder = tmp_path / "shop"
    folder.mkdir()
    store = SqlStore(f"sqlite:///{folder / 'state.db'}")
    written = store.write(NAME, b"{}", if_tag=None)
    spoil(folder)
    for ask in (
        lambda: store.read(NAME),
        lambda: store.write(NAME, b"{}", if_tag=written.tag),
        lambda: store.append(NAME, "a line"),
        lambda: store.lines(NAME),
    ):
        with pytest.raises((StoreUnavailable, StoreDenied), match=str(folder / "state.db")):
            ask()
    store.close()


def test_a_process_out_of_threads_finds_the_store_unavailable(
    postgres_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that watches over an answer's time cannot start; nothing was sent."""
    store = SqlStore(postgres_db)
    store.write(NAME, b"{}", if_tag=None)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Timer, "start", refuse)
        with pytest.raises(StoreError, match="thread") as refused:
            store.read(NAME)
    assert isinstance(refused.value, StoreUnavailable)
    assert isinstance(store.read(NAME), Found)
    store.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql+mysqldb://u@h/d", ("MySQLdb", "pip install pymysql, and write mysql+pymysql://")),
        ("nosuch://u@h/d", ("nosuch", "Install SQLAlchemy's dialect for it.")),
        (f"postgresql://u:p@ss{SECRET}@h/d", ("%40",)),
    ],
)
def test_a_url_with_an_unavailable_driver_names_the_next_step(url: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as refused:
        SqlStore(url)
    assert refused.value.key == "state.url"
    assert all(word in str(refused.value) for word in words)
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_a_driver_without_its_system_library_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ImportError("libodbc.so.2: cannot open shared object file", name="pyodbc")

    def fail(*_: object, **__: object) -> None:
        raise broken

    monkeypatch.setattr(MSDialect_pyodbc, "import_dbapi", fail)
    with pytest.raises(ConfigError, match=r"state.url.* pyodbc, which is installed but cannot be loaded: libodbc"):
        SqlStore("mssql+pyodbc://u@h/d?driver=x")


@pytest.mark.parametrize("url", ["mysql://u@h/d", "mariadb://u@h/d", "postgres://u@h/d"])
def test_a_url_without_a_driver_takes_one_that_is_installed(url: str) -> None:
    """Nothing answers there, and it is the driver that says so."""
    port = free_port()
    store = SqlStore(url.replace("@h", f"@127.0.0.1:{port}"))
    with pytest.raises(StoreUnavailable) as refused:
        store.read(NAME)
    assert str(port) in str(refused.value)
    store.close()
