"""docs/architecture.md names the modules, the floors and the files in the store as they are."""

from __future__ import annotations

import re
import tomllib

from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_each_floor_lists_the_modules_that_the_linter_keeps_there() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["id"] == "floors"]
    kept = [set(re.findall(r"\w+", layer)) for layer in layers]

    shown: dict[str, set[str]] = {}
    floor = ""
    for number, modules in re.findall(r"^\| (\d?) ?\| (.*?) \| .*\|$", PAGE, re.MULTILINE):
        floor = number or floor
        named = re.findall(r"`(?:poller/)?(\w+)(?:\.py|/)?`", modules)
        shown.setdefault(floor, set()).update(named)

    assert shown["4"] == kept[0] | kept[1]
    assert (shown["3"], shown["2"], shown["0"]) == (kept[2], kept[3], kept[-1])
    assert shown["1"] == set().union(*kept[4:-1])


def test_every_kind_of_file_in_the_store_is_listed() -> None:
    code = "".join(path.read_text() for folder in ("poller", "cli") for path in (ROOT / folder).rglob("*.py"))
    probe = "control/{poller.app_name}/{poller.name}.check"  # a write that cannot land
    written = set(re.findall(r'f"([a-z]+)/\{', code.replace(probe, "")))

    listed = re.findall(r"^\| `([a-z]+)/\{app\}", PAGE, re.MULTILINE)

    assert sorted(listed) == sorted(written)
