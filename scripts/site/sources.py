"""What the generator of the site reads: the repository's pages, their links turned to where things are in the site."""

from __future__ import annotations

import json
import posixpath
import re
import shutil
from pathlib import Path

from scripts.long_description import relink
from scripts.site.navigation import COMMANDS, SECTIONS, Page, below, pages

HERE = Path(__file__).parent
WORKER = "iframe-worker.js"
_NAMED = re.compile(r"\[(?P<name>[\w./-]+\.md)\]\((?P<path>[^)\s#]+)(?P<anchor>#[^)\s]+)?\)")
_COMMAND = re.compile(r"^## `poller ([a-z -]+)`$", re.MULTILINE)


class BrokenSource(Exception):
    """A page or a link of the repository that the site cannot have."""


def write(root: Path, folder: Path, urls: dict[str, str]) -> list[tuple[str, list[list[Page]]]]:
    """Write pages, the files that they link to, and the generator's configuration.

    Args:
        root: the repository. folder: becomes what the generator reads; it writes into `site` in it.
        urls: `[project.urls]`.

    Returns: The sections with all their pages; a page that others belong to stands before them in one list.
    Raises: BrokenSource: a page of docs/ is in no section, or a link leads nowhere.
    """
    listed = {page.source for page in pages(root)}
    found = [path.relative_to(root).as_posix() for path in sorted((root / "docs").rglob("*.md"))]
    forgotten = [name for name in found if name not in listed]
    if forgotten:
        raise BrokenSource(f"In no section of scripts/site/navigation.py: {', '.join(forgotten)}.")
    shutil.rmtree(folder, ignore_errors=True)
    sources = _Sources(root, folder / "pages", urls)
    sections = [(title, [sources.add(page) for page in section]) for title, section in SECTIONS.items()]
    (sources.folder / "assets").mkdir()
    shutil.copy(HERE / WORKER, sources.folder / "assets" / WORKER)
    (folder / "zensical.toml").write_text(_configuration(urls, sections), encoding="utf-8")
    return sections


class _Sources:
    """The folder of the pages while it is written."""

    def __init__(self, root: Path, folder: Path, urls: dict[str, str]) -> None:
        self.root, self.folder, self.urls = root, folder, urls
        self.places = {page.source: page.path for page in pages(root)}
        self.titles = {page.path: page.title for page in pages(root)}
        text = (root / COMMANDS.source).read_text(encoding="utf-8")
        head, *rest = _COMMAND.split(text)
        self.commands_head = head
        self.commands = dict(zip(rest[::2], rest[1::2], strict=True))

    def add(self, page: Page) -> list[Page]:
        """Write a page, and those that belong to it: those of the commands, or of its folder."""
        if page != COMMANDS:
            made = [page, *below(self.root, page)]
            for one in made:
                self._write(one, (self.root / one.source).read_text(encoding="utf-8"))
            return made
        self._write(page, self.commands_head)
        made = [page]
        for name, body in self.commands.items():
            made.append(Page(f"poller {name}", _place(name), page.source))
            self._write(made[-1], f"# `poller {name}`\n{re.sub('^#', '', body, flags=re.MULTILINE)}")
        return made

    def _write(self, page: Page, text: str) -> None:
        file = self.folder / page.path
        file.parent.mkdir(parents=True, exist_ok=True)
        text = relink(text, lambda target, _: self._address(page, target))
        file.write_text(_NAMED.sub(lambda match: self._titled(page, match), text), encoding="utf-8")

    def _titled(self, page: Page, match: re.Match[str]) -> str:
        """A link that shows a file's name, such as `[stores.md](stores.md#blobs)`, shows the page's title."""
        place = posixpath.normpath(posixpath.join(posixpath.dirname(page.path), match["path"]))
        title = self.titles.get(place, match["name"])
        return f"[{title}]({match['path']}{match['anchor'] or ''})"

    def _address(self, page: Page, target: str) -> str | None:
        path, mark, anchor = target.partition("#")
        source = posixpath.normpath(posixpath.join(posixpath.dirname(page.source), path)) if path else page.source
        name = anchor.removeprefix("poller-")
        if source == COMMANDS.source and name != anchor:
            known = {one.replace(" ", "-"): one for one in self.commands}
            if name not in known:
                raise BrokenSource(f"{page.source}: no command has the anchor of {target}.")
            return _from(page, _place(known[name]))
        if not path:
            return target
        if source in self.places:
            return _from(page, self.places[source]) + mark + anchor
        file = self.root / source
        if file.is_file():
            copy = self.folder / source.removeprefix("docs/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
            return _from(page, source.removeprefix("docs/"))
        if not file.is_dir():
            raise BrokenSource(f"{page.source}: {target} leads nowhere.")
        repository = self.urls.get("Repository", "").rstrip("/")
        return f"{repository}/tree/HEAD/{source}" if repository else None


def _place(command: str) -> str:
    return f"commands/{command.replace(' ', '-')}.md"


def _from(page: Page, path: str) -> str:
    return posixpath.relpath(path, posixpath.dirname(page.path) or ".")


def _configuration(urls: dict[str, str], sections: list[tuple[str, list[list[Page]]]]) -> str:
    """zensical.toml: the pages in order, before what scripts/site/zensical.toml says of the rest.

    The repository's address stays out: with it a page asks that host for its stars.
    """
    lines = ["[project]", 'site_dir = "site"', 'docs_dir = "pages"']
    if "Documentation" in urls:
        lines.append(f"site_url = {json.dumps(urls['Documentation'])}")
    lines.append("nav = [")
    for title, section in sections:
        lines.append(f"  {{ {json.dumps(title)} = [")
        for page, *others in section:
            if others:
                inside = [Page("All of them", page.path, page.source), *others]
                lines.append(f"    {{ {json.dumps(page.title)} = [{', '.join(map(_entry, inside))}] }},")
            else:
                lines.append(f"    {_entry(page)},")
        lines.append("  ] },")
    lines.append("]")
    return "\n".join(lines) + "\n" + (HERE / "zensical.toml").read_text(encoding="utf-8")


def _entry(page: Page) -> str:
    return f"{{ {json.dumps(page.title)} = {json.dumps(page.path)} }}"
