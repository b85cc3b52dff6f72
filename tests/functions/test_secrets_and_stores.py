"""What the host logs holds no secret, and a state that dies with a worker is refused however a poller was made."""

from __future__ import annotations

import traceback
from pathlib import Path

import azure.functions as func
import pytest

from poller import Batch, ConfigError, Poller
from poller.functions import UnsuccessfulTick, on_timer
from poller.ports import StateStore
from poller.sources import SqlSource
from poller.stores import BlobStore, MemoryStore, SqlStore
from tests.functions import host
from tests.functions.folder import Folder
from tests.support.azurite import Azurite

SECRET = "topsecret"


class Refused(Exception):
    """What a user's handler raises."""


def _shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _quotes_a_password(batch: Batch) -> None:
    raise Refused(f"cannot reach postgresql://app:{SECRET}@db/shop")


def _quotes_it_in_its_cause(batch: Batch) -> None:
    try:
        _quotes_a_password(batch)
    except Refused as error:
        raise Refused("cannot ship") from error


@pytest.mark.parametrize("handler", [_quotes_a_password, _quotes_it_in_its_cause])
def test_an_error_that_quotes_a_secret_is_reported_without_it(shop: Folder, handler: object) -> None:
    worker = shop.worker()
    shop.handlers.hook = handler
    with pytest.raises(UnsuccessfulTick, match="handler_failed: Refused: cannot") as failed:
        worker.invoke("orders")
    assert SECRET not in _shown(failed.value)


def test_a_poller_that_it_halts_fails_without_it_too(one_by_one: Folder) -> None:
    one_by_one.defaults = 'max_attempts = 1\non_poison = "halt"'
    worker = one_by_one.worker()
    one_by_one.handlers.hook = _quotes_it_in_its_cause
    with pytest.raises(UnsuccessfulTick, match=r"halted: .*Refused: cannot ship") as halted:
        worker.invoke("orders")
    assert SECRET not in _shown(halted.value)


def _notes(_: object) -> list[str]:
    raise SystemExit(3)


def test_an_error_that_cannot_be_printed_fails_the_invocation(shop: Folder) -> None:
    """Handed to the host as it is, it would end the worker, or have five million characters logged."""
    shop.defaults = 'retry_backoff = "1ms"'
    worker = shop.worker()
    hostile = type("Hostile", (Exception,), {"__notes__": property(_notes)})
    for error, expected in ((hostile("no"), "Hostile: no"), (ValueError("y" * 5_000_000), "ValueError: yyy")):

        def hook(_: object, error: Exception = error) -> None:
            raise error

        shop.handlers.hook = hook
        with pytest.raises(UnsuccessfulTick, match=f"handler_failed: {expected}") as failed:
            worker.invoke("orders")
        assert len(_shown(failed.value)) < 10_000


def _poller(store: StateStore, folder: Path) -> Poller:
    url = f"sqlite:///{folder / 'orders.db'}"
    source = SqlSource(url, table="orders", cursor_column="at", cursor_time_zone="UTC", pk_columns=["id"])
    return Poller("orders", source=source, store=store, app_name="shop")


@pytest.mark.parametrize("kind", ["memory", "SQLite"])
def test_on_timer_refuses_in_azure_state_that_dies_with_the_worker(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    store: StateStore = MemoryStore() if kind == "memory" else SqlStore(f"sqlite:///{tmp_path / 'state.db'}")
    app = func.FunctionApp()
    on_timer(app, _poller(store, tmp_path), name="here")(lambda batch: None)
    monkeypatch.setenv("WEBSITE_SITE_NAME", "shop-functions")
    with pytest.raises(ConfigError, match=rf"^store: {kind} does not outlive a worker") as refused:
        on_timer(app, _poller(store, tmp_path), name="there")(lambda batch: None)
    assert refused.value.key == "store"
    assert list(host.functions(app)) == ["here"]


def test_on_timer_accepts_in_azure_what_outlives_a_worker(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBSITE_SITE_NAME", "shop-functions")
    app = func.FunctionApp()
    blob = BlobStore.from_connection_string(Azurite.connection_string_via("http://storage.invalid/shop"))
    stores: dict[str, StateStore] = {"blob": blob, "sql": SqlStore("postgresql+psycopg://app@db/shop")}
    for name, store in stores.items():
        on_timer(app, _poller(store, tmp_path), name=name)(lambda batch: None)
    assert list(host.functions(app)) == ["blob", "sql"]
