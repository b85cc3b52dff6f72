"""What an operator sees of a poller in each condition, byte for byte at 80 columns; `pytest --update` writes it. And
each place says the same word and severity."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from typing import Any

import pytest

from poller import App, load_app
from poller.http import Hosts, Keys, Request, endpoints_of
from poller.model.view import TABLE, title
from tests.console.conditions import SHOPS
from tests.console.pages import SCREENS
from tests.console.world import World, folder
from tests.support.cases import each

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
            if looked["pollers"]:
                assert_one_word(world, shop.of, status["word"], status["severity"])
    assert status["word"] == shop.name
    compare(f"conditions/{name}", "\n".join(looks))


KEY = "a-key-for-those-who-look"


@contextmanager
def opened(world: World) -> Iterator[App]:
    """Its configuration, in this process and by its clock."""
    with (
        chdir(world.folder),
        world.clock.in_sqlite(),
        load_app("poller.toml", {}, observers=[], runtime=world.clock) as app,
    ):
        yield app


def assert_one_word(world: World, name: str, word: str, severity: str) -> None:
    """In health, watch and check, in Python, over HTTP and on the page; and to look changes nothing of the poller."""

    def of(found: Any) -> Any:
        (one,) = [one for one in found["pollers"] if one.get("status", one)["name"] == name]
        return one

    def typed(*words: str) -> tuple[int, Any]:
        code, text = world.run(*words, "--json")
        return code, of(json.JSONDecoder().raw_decode(text)[0])

    before = world.body()
    code, health = typed("health")
    assert (health["word"], health["severity"]) == (word, severity)
    assert (code != 0) == (severity == "unhealthy")
    assert (world.run("health", name, "--strict")[0] != 0) == (severity != "well")
    watched = typed("watch", "--count", "1")[1]["status"]
    assert (watched["word"], watched["severity"]) == (word, severity)
    found = {one["check"]: one["severity"] for one in typed("check")[1]["findings"]}
    assert found.get("delivery", "error") == {"unhealthy": "error", "warning": "warn", "well": "ok"}[severity]
    with opened(world) as app:
        (one,) = [one for one in app.health().pollers if one.name == name]
        (again,) = [one for one in app.health().pollers if one.name == name]
        endpoints = endpoints_of(app, Keys(KEY), Hosts(["localhost"]))
        headers = (("host", "localhost"), ("x-functions-key", KEY))
        asked = (Request("GET", f"/api/{path}", headers=headers) for path in ("pollers", "dashboard", "health"))
        listed, page, bare = map(endpoints, asked)
        endpoints.settle(5.0)
    assert (one.word, one.severity) == (again.word, again.severity) == (word, severity)
    shown = of(json.loads(listed.body))
    assert (shown["word"], shown["severity"]) == (word, severity)
    assert f"</svg>{title(word)}</span>" in page.body.decode()
    assert bare.status == (503 if severity == "unhealthy" else 200)
    assert "has no customer" not in listed.body.decode() + page.body.decode(), "an error's text is an operator's"
    assert world.body() == before


def test_each_condition_has_a_screen() -> None:
    assert {shop.name for shop in SHOPS.values()} == set(TABLE) - NOT_HERE


def test_no_screen_is_kept_of_a_shop_that_is_gone() -> None:
    assert {file.stem for file in (SCREENS / "conditions").iterdir()} == set(SHOPS)


@each("name", SHOPS)
def test_no_line_is_wider_than_the_terminal_but_for_one_word(name: str) -> None:
    for line in (SCREENS / "conditions" / f"{name}.txt").read_text().splitlines():
        assert len(line) <= 80 or " " not in line.strip(), line
