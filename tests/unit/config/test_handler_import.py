"""Handlers are imported from beside their `poller.toml`, whoever else imports at the same time."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from poller import Handler
from poller.errors import ConfigError
from poller.handler.load import import_handler

BODY = """
import gate
gate.entered.release()
gate.open.wait(30)
def on_rows(batch): ...
def on_others(batch): ...
"""


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What a module's body reports when it begins, and waits for."""
    module = ModuleType("gate")
    module.entered, module.open = threading.Semaphore(0), threading.Event()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gate", module)
    monkeypatch.delitem(sys.modules, "gated_handlers", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return module


def test_two_pollers_that_start_at_once_import_their_module_once(tmp_path: Path, gate: ModuleType) -> None:
    before, folder = tmp_path / "before", tmp_path / "now"
    for place in (before, folder):
        place.mkdir()
        (place / "gated_handlers.py").write_text(BODY)
    gate.open.set()
    import_handler("gated_handlers:on_rows", folder=before, key="handler")
    assert gate.entered.acquire(timeout=30)
    gate.open.clear()
    sys.path.remove(str(before))
    found: dict[str, Handler] = {}

    def load(name: str) -> None:
        found[name] = import_handler(f"gated_handlers:{name}", folder=folder, key="handler")

    threads = [threading.Thread(target=load, args=(name,)) for name in ("on_rows", "on_others")]
    threads[0].start()
    assert gate.entered.acquire(timeout=30)
    threads[1].start()
    twice = gate.entered.acquire(timeout=0.2)  # the second must not begin to import while the first does
    gate.open.set()
    for thread in threads:
        thread.join(30)

    assert not twice
    assert sorted(found) == ["on_others", "on_rows"]
    assert sys.modules["gated_handlers"].__file__ == str(folder / "gated_handlers.py")


@pytest.mark.parametrize(
    "body",
    ["class Odd(BaseException): pass\nraise Odd", "def __getattr__(name): raise RuntimeError", "raise SystemExit(3)"],
)
def test_a_module_that_raises_anything_is_a_configuration_error(tmp_path: Path, body: str) -> None:
    """Anything else would end the index of all the other pollers."""
    (tmp_path / "odd_handlers.py").write_text(body)
    with pytest.raises(ConfigError, match=r'handler: module "odd_handlers" cannot be imported: odd_handlers.py, line'):
        import_handler("odd_handlers:on_rows", folder=tmp_path, key="handler")


def test_a_misspelt_name_in_an_unlistable_module_is_reported(tmp_path: Path) -> None:
    (tmp_path / "unlisted_handlers.py").write_text("def __dir__(): raise RuntimeError")
    with pytest.raises(ConfigError, match='module "unlisted_handlers" has no "on_rows"'):
        import_handler("unlisted_handlers:on_rows", folder=tmp_path, key="handler")
