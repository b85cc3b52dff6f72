"""The screens in docs/cli.md, and their pictures, are what the console prints of the prepared shop."""

from __future__ import annotations

import re

from scripts.captures import PAGE, WIDE, captures, text
from tests.repo.docs.blocks import ROOT


def test_the_page_and_its_pictures_are_what_is_printed() -> None:
    assert text() in (ROOT / PAGE).read_text(encoding="utf-8")
    made = captures()
    assert [str(path) for path, text in made.items() if (ROOT / path).read_text(encoding="utf-8") != text] == []
    assert made == captures(), "whenever it is made"


def test_every_picture_that_the_page_names_is_there() -> None:
    named = re.findall(r"\((images/[^)]+)\)", (ROOT / PAGE).read_text(encoding="utf-8"))
    assert set(named) == {f"images/{file.name}" for file in (ROOT / "docs" / "images").glob("console*")}
    assert f"images/console-demo-{WIDE}.svg" in named
    for name in named:
        picture = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert picture.startswith("<svg ")
        assert "url(" + '"http' not in picture, "it loads nothing"
