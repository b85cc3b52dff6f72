"""A thousand pollers cost a thousand times their own, and what they share once (`benchmarks/scale` measures it)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from poller import load_app
from poller.config import includes, load_each, schedules_of
from poller.sources.user_sql import filters
from tests.unit.config.loading import INCLUDING, TABLE, of_template, write

COUNT = 30


def shop(folder: Path, template: str = TABLE) -> Path:
    own = "".join(of_template(f"t-{n}") for n in range(COUNT))
    state = '[state]\nstore = "memory"\n'
    return write(folder, {"poller.toml": INCLUDING + state + template, "pollers.d/all.toml": own})


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> Counter[Any]:
    """How often a function is called, by its first argument."""
    calls: Counter[Any] = Counter()
    real = getattr(module, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        calls[args[0]] += 1
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, call)
    return calls


def test_a_file_is_read_once_however_many_pollers_are_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = shop(tmp_path, TABLE + "filtr = 1\n")
    read = counted(monkeypatch, includes, "read_text")
    _, wrong = load_each(file, {})
    assert len(wrong) == COUNT
    assert len(schedules_of(file, wrong, {})) == COUNT
    assert read == {file: 2, tmp_path / "pollers.d" / "all.toml": 2}


def test_a_wrong_template_is_one_error_of_all_its_pollers(tmp_path: Path) -> None:
    _, wrong = load_each(shop(tmp_path, TABLE + "filtr = 1\n"), {})
    assert len({id(error) for error in wrong.values()}) == 1


def test_pollers_of_one_template_share_its_filter_and_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = shop(tmp_path, TABLE + "filter = \"of_this_test <> 'x'\"\n")
    parsed = counted(monkeypatch, filters, "check_filter")
    with load_app(file, {}) as app:
        pollers = [app.pollers[name] for name in app.pollers]
        assert len(pollers) == COUNT
        assert {id(poller.store) for poller in pollers} == {id(app.store)}
    assert parsed == {"of_this_test <> 'x'": 1}
