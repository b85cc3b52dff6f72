"""docs/inside/architecture.md names the modules, the floors and the files in the store as they are."""

from __future__ import annotations

import re
import tomllib

from tests.repo.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "inside" / "architecture.md").read_text()


def test_the_floors_on_the_page_are_the_linters() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["id"] == "floors"]
    kept = [set(re.findall(r"\w+", layer)) for layer in reversed(layers)]

    shown: dict[int, set[str]] = {}
    for number, name in re.findall(r"^\| (\d+) \| `poller/(\w+)(?:\.py|/)` \| .*\|$", PAGE, re.MULTILINE):
        shown.setdefault(int(number), set()).update([name])

    assert [shown[number] for number in sorted(shown)] == kept


def test_every_package_and_module_at_the_top_stands_on_a_floor() -> None:
    tops = {
        path.stem for path in (ROOT / "poller").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }

    assert tops - {"__init__"} == set(re.findall(r"^\| \d+ \| `poller/(\w+)(?:\.py|/)`", PAGE, re.MULTILINE))


def test_every_file_on_the_page_is_there() -> None:
    named = re.findall(r"`((?:poller|cli|tests)/[\w/]+(?:\.py|/)?)`", PAGE)

    assert len(named) > 25
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_kind_of_file_in_the_store_is_listed() -> None:
    code = "".join(path.read_text() for folder in ("poller", "cli") for path in (ROOT / folder).rglob("*.py"))
    probe = "control/{poller.app_name}/{poller.name}.check"  # a write that cannot land
    written = set(re.findall(r'f"([a-z]+)/\{', code.replace(probe, ""))) - {"application"}  # a media type

    listed = re.findall(r"^\| `([a-z]+)/\{app\}", PAGE, re.MULTILINE)

    assert sorted(listed) == sorted(written)
