"""Each row in one file, whatever is killed, stopped or late: schedules of the blob relay's protocol by seed, in memory.
The same with real kills and a real container: `test_year.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from poller.relays import landing
from poller.relays.landing import LandedFiles, LandingEntry, needed
from tests.resilience.relays.landing_world import World


def _play(seeds: range) -> None:
    for seed in seeds:
        world = World(seed, faults=0.05 + seed % 4 * 0.06)
        try:
            world.play(12)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.guarantee(
    "Delivery",
    "With the relay `blob` each version of a row is in exactly one file, also if a worker is killed, stopped or "
    "late, and however batches are cut when they come again; no file is ever changed",
)
def test_every_row_lands_in_exactly_one_file() -> None:
    _play(range(60))


def _only_looks(self: Any, entry: LandingEntry, columns: str) -> bool:
    return bool(self._files.look(entry.name) == "landed")


def _takes_a_seal_for_its_file(self: Any, name: str, rows: Any, form: Any, columns: str, batch: Any) -> bool:
    self._files.create(name, form.encode(rows.positions, columns), sealed=False, facts={})
    self._landed.add(name)
    return True


def _forgets_held(entries: Any, standing: Any) -> Any:
    return needed(entries, replace(standing, held=frozenset()))


def _mixes_generations(entries: Any, standing: Any) -> Any:
    return needed([replace(one, generation=standing.generation) for one in entries], standing)


@pytest.mark.parametrize(
    ("owner", "name", "mutant"),
    [
        pytest.param(LandedFiles, "_settle", _only_looks, id="a missing file is not sealed"),
        pytest.param(LandedFiles, "_check_token", lambda *_: None, id="a stale owner may write"),
        pytest.param(LandedFiles, "_create", _takes_a_seal_for_its_file, id="a seal is taken for the file"),
        pytest.param(landing, "needed", lambda *_: (), id="nothing is remembered"),
        pytest.param(landing, "needed", _forgets_held, id="rows set aside are forgotten"),
        pytest.param(landing, "needed", _mixes_generations, id="a reset changes nothing"),
    ],
)
def test_no_part_of_the_protocol_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, mutant: Callable[..., Any]
) -> None:
    monkeypatch.setattr(owner, name, mutant)
    with pytest.raises(AssertionError, match="seed"):
        _play(range(150))


@pytest.mark.soak
def test_every_row_lands_in_exactly_one_file_in_many_schedules() -> None:
    _play(range(1_000, 3_000))


@pytest.mark.prove
@pytest.mark.timeout(3_600)
def test_every_row_lands_in_exactly_one_file_in_all_schedules() -> None:
    _play(range(10_000, 40_000))
