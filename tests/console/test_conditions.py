"""What an operator sees of a poller in each condition, byte for byte at 80 columns; `pytest --update` writes it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from poller.model.view import TABLE
from tests.console.conditions import SHOPS
from tests.console.pages import SCREENS
from tests.console.world import folder

NOT_HERE = {"two_apps", "moved", "set_aside"}
"""Conditions of other processes, and those that are only said beside a word."""


@pytest.mark.parametrize("name", SHOPS)
def test_each_condition_looks_as_it_did(name: str, compare: Callable[[str, str], None]) -> None:
    shop = SHOPS[name]
    with folder() as place:
        world = shop.world(place)
        with shop.meanwhile(world):
            _, found = world.run("status", shop.of, "--json")
            looked = json.JSONDecoder().raw_decode(found)[0]
            (status,) = looked["backfills"] or looked["pollers"]
            looks = [world.typed(*words) for words in (("status", shop.of), ("status",), ("health",))]
    assert status["word"] == shop.name
    compare(f"conditions/{name}", "\n".join(looks))


def test_each_condition_has_a_screen() -> None:
    assert {shop.name for shop in SHOPS.values()} == set(TABLE) - NOT_HERE


def test_no_screen_is_kept_of_a_shop_that_is_gone() -> None:
    assert {file.stem for file in (SCREENS / "conditions").iterdir()} == set(SHOPS)


@pytest.mark.parametrize("name", SHOPS)
def test_no_line_is_wider_than_the_terminal_but_for_one_word(name: str) -> None:
    for line in (SCREENS / "conditions" / f"{name}.txt").read_text().splitlines():
        assert len(line) <= 80 or " " not in line.strip(), line
