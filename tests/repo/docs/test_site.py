"""The documentation as a site: whole, complete, and sufficient by itself. `make check` builds the real one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from scripts import docs_cli
from scripts.site.__main__ import build
from scripts.site.inspection import problems
from scripts.site.navigation import pages
from scripts.site.sources import BrokenSource, write
from tests.repo.docs.blocks import ROOT
from tests.support.browser import chromium


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the generator reads of the real pages."""
    folder = tmp_path_factory.mktemp("site")
    write(ROOT, folder, {})
    return folder / "pages"


def test_every_command_has_a_page_in_the_site(prepared: Path) -> None:
    commands = re.findall(r"^## `poller (.+)`$", (ROOT / "docs/cli.md").read_text(), re.MULTILINE)
    shown = (prepared / "cli.md").read_text()

    for name in commands:
        place = f"commands/{name.replace(' ', '-')}.md"
        assert (prepared / place).read_text().startswith(f"# `poller {name}`\n")
        assert f"]({place})" in shown
    assert len(commands) > 25


def test_links_to_a_command_lead_to_its_page(prepared: Path) -> None:
    text = (prepared / "incidents.md").read_text()
    assert "cli.md#poller-" not in text
    assert "(../schemas/status.schema.json)" in (prepared / "commands/status.md").read_text()
    assert (prepared / "schemas/status.schema.json").is_file()


def test_a_link_that_shows_a_file_shows_the_pages_title(prepared: Path) -> None:
    assert re.findall(r"\[[\w/-]+\.md\]\([^)]+\)", (prepared / "index.md").read_text()) == []


def test_the_navigation_names_each_file_once() -> None:
    paths, sources = [page.path for page in pages(ROOT)], [page.source for page in pages(ROOT)]
    assert len(set(paths)) == len(paths)
    assert len(set(sources)) == len(sources)
    assert [name for name in sources if not (ROOT / name).is_file()] == []


def test_the_generator_is_given_every_page_and_no_repository(prepared: Path, tmp_path: Path) -> None:
    text = (prepared.parent / "zensical.toml").read_text()
    project = tomllib.loads(text)["project"]
    named = set(re.findall(r'"([\w/-]+\.md)"', text))
    assert named == {path.relative_to(prepared).as_posix() for path in prepared.rglob("*.md")}
    assert project["theme"]["font"] is False
    assert not {"site_url", "repo_url"} & project.keys()

    urls = {"Documentation": "https://docs.example/poller/", "Repository": "https://code.example/poller"}
    write(repository(tmp_path / "repository", http="# HTTP\n\n[deploy](../deploy)\n"), tmp_path / "out", urls)
    project = tomllib.loads((tmp_path / "out" / "zensical.toml").read_text())["project"]
    assert project["site_url"] == urls["Documentation"]
    assert "repo_url" not in project
    assert "(https://code.example/poller/tree/HEAD/deploy)" in (tmp_path / "out/pages/http.md").read_text()


def repository(folder: Path, **written: str) -> Path:
    """The pages of the navigation, each a heading, and these on top."""
    for page in pages(ROOT):
        file = folder / page.source
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# {page.title}\n")
    for name, text in written.items():
        (folder / "docs" / f"{name}.md").write_text(text)
    (folder / "deploy").mkdir()
    (folder / "pyproject.toml").write_text('[project]\nname = "poller"\ndescription = "It polls."\n')
    return folder


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"new": "# New\n"}, "docs/new.md"),
        ({"http": "# HTTP\n\n[gone](gone.md)\n"}, "docs/http.md: gone.md leads nowhere"),
        ({"http": "# HTTP\n\n[gone](cli.md#poller-gone)\n"}, "cli.md#poller-gone"),
    ],
    ids=["forgotten", "file", "command"],
)
def test_what_the_site_cannot_have_is_named(written: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(BrokenSource, match=re.escape(said)):
        write(repository(tmp_path / "repository", **written), tmp_path / "out", {})


@pytest.mark.parametrize(
    ("html", "said"),
    [
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//fonts.example/css">', "loads //fonts.example/css"),
        ('<img src="a.png" srcset="a.png 1x, http://i.example/b.png 2x">', "loads http://i.example/b.png"),
        ("<style>@import 'https://f.example/i.css';</style>", "loads https://f.example/i.css"),
        ('<p style="background: url(https://i.example/x.png)">', "loads https://i.example/x.png"),
        ('<a href="gone.html">x</a>', "gone.html leads nowhere"),
        ('<a href="a.html#gone">x</a>', "a.html#gone leads nowhere"),
    ],
    ids=["script", "link", "image", "import", "style", "file", "anchor"],
)
def test_what_is_wrong_with_a_built_page_is_seen(html: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    (tmp_path / "a.html").write_text(f'<a href="https://docs.example/">fine</a><h1 id="top">x</h1>{html}')
    assert problems(tmp_path) == [f"a.html: {said}"]


def test_a_style_sheet_that_loads_from_elsewhere_is_seen(tmp_path: Path) -> None:
    (tmp_path / "fine.css").write_text("a { background: url('data:image/svg+xml;utf8,<svg xmlns=\"http://w3\">') }")
    (tmp_path / "wrong.css").write_text("@font-face { src: url(https://fonts.example/x.woff2) }")
    assert problems(tmp_path) == ["wrong.css: loads https://fonts.example/x.woff2"]


@pytest.mark.soak
def test_a_dead_anchor_fails_the_build(tmp_path: Path) -> None:
    wrong = build(repository(tmp_path / "repository", http="# HTTP\n\n[x](health.md#gone)\n"), tmp_path / "out")
    assert "anchor does not exist" in "".join(wrong)


@pytest.mark.soak
def test_the_site_is_whole_and_is_searched_without_a_server(tmp_path: Path) -> None:
    assert build(ROOT, tmp_path) == []
    site = tmp_path / "site"
    listed = re.findall(r"\]\(([\w/-]+\.md)\)", (site / "llms.txt").read_text())
    assert {page.path for page in pages(ROOT)} <= set(listed)
    assert [name for name in listed if not (site / name).is_file()] == []
    assert "# Getting started" in (site / "llms-full.txt").read_text()

    with chromium() as browser:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "commands" / "status.html").as_uri())
        page.get_by_role("button", name="Search").click()
        page.get_by_role("combobox", name="Search").press_sequentially("fencing token", delay=20)
        page.get_by_text(re.compile("^[1-9][0-9]* results")).wait_for()
        assert "fencing token" in page.locator("dialog", has_text="results").inner_text().lower()
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []


def test_man_has_a_page_for_every_command() -> None:
    text = (ROOT / "docs/cli.md").read_text()
    commands = [name.replace(" ", "-") for name in re.findall(r"^## `poller (.+)`$", text, re.MULTILINE)]
    files = {path.name for path in (ROOT / "man").iterdir()}
    assert files == {"poller.1", *(f"poller-{name}.1" for name in commands)}
    for file in files:
        lines = (ROOT / "man" / file).read_text().splitlines()
        assert {".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", ".SH EXIT STATUS"} <= {*lines}, file
    assert docs_cli.CODES.keys() == {
        int(code) for code in re.findall(r"^\\fB(\d)\\fR$", (ROOT / "man/poller-run.1").read_text(), re.MULTILINE)
    }
