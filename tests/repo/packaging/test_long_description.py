"""README.md as a package index shows it has no link that leads nowhere there."""

from __future__ import annotations

import re

import pytest

from scripts.long_description import LongDescription, described
from scripts.release.texts import description_addresses
from tests.repo.packaging.repository import project
from tests.support.services import REPOSITORY

README = (REPOSITORY / "README.md").read_text()
URLS = {"Repository": "https://code.example/poller/", "Documentation": "https://docs.example/poller"}
CODE = "https://code.example/poller/blob/v0.1.0"


@pytest.mark.parametrize("urls", [{}, URLS], ids=["before", "after"])
def test_the_long_description_has_no_dead_link(urls: dict[str, str]) -> None:
    addresses = description_addresses(described(README, urls, "0.1.0"))
    assert addresses is not None
    assert [one for one in addresses if not re.match("https://|#", one)] == []
    assert len(addresses) >= (20 if urls else 0)


@pytest.mark.parametrize(
    ("text", "without", "with_addresses"),
    [
        (
            "[docs/http.md](docs/http.md#keys)",
            "docs/http.md",
            "[docs/http.md](https://docs.example/poller/http.html#keys)",
        ),
        ("see [it](CHANGELOG.md)", "see it", f"see [it]({CODE}/CHANGELOG.md)"),
        ("[`make`](Makefile)", "`make`", f"[`make`]({CODE}/Makefile)"),
        ("![a page](docs/p.png)", "a page", "![a page](https://code.example/poller/raw/v0.1.0/docs/p.png)"),
        ('<img src="p.png" alt="p">', "p", '<img src="https://code.example/poller/raw/v0.1.0/p.png" alt="p">'),
        (
            "[![a](a.png)](docs/a.md)",
            "a",
            "[![a](https://code.example/poller/raw/v0.1.0/a.png)](https://docs.example/poller/a.html)",
        ),
        ("[there](https://else.example)", "[there](https://else.example)", "[there](https://else.example)"),
        ("[below](#words)", "[below](#words)", "[below](#words)"),
        ("`[x](y)` and\n```\n[x](y)\n```\n", "`[x](y)` and\n```\n[x](y)\n```\n", "`[x](y)` and\n```\n[x](y)\n```\n"),
    ],
    ids=["page", "file", "code", "image", "tag", "image-link", "absolute", "anchor", "block"],
)
def test_a_link_becomes_absolute_or_goes(text: str, without: str, with_addresses: str) -> None:
    assert described(text, {}, "0.1.0") == without
    assert described(text, URLS, "0.1.0") == with_addresses


def test_the_build_takes_the_addresses_of_the_project() -> None:
    hook = LongDescription(str(REPOSITORY), {})
    metadata = {"version": "0.1.0", "urls": URLS}
    hook.update(metadata)
    readme = metadata["readme"]
    assert isinstance(readme, dict)
    assert readme["content-type"] == "text/markdown"
    assert "](https://docs.example/poller/getting-started.html)" in readme["text"]
    assert project()["dynamic"] == ["readme"]
