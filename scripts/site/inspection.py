"""What is wrong with a built site: links that lead nowhere, and parts that would be loaded from elsewhere."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

_LOADS = {"href", "src", "srcset", "poster", "data"}
_STYLE = re.compile(r"""@import\s*["']?([^"';)]+)|url\(\s*["']?((?:https?:)?//[^"')]+)""")


@dataclass
class _Reader(HTMLParser):
    """The anchors of a page, where it links to, and what it loads."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self._style = tag == "style"
        self.anchors.update(found[name] for name in ("id", "name") if name in found)
        self._inline(found.get("style", ""))
        if tag == "a":
            self.links += [found["href"]] if "href" in found else []
        elif found.get("rel") not in ("canonical", "next", "prev"):
            for name in _LOADS & found.keys():
                self.parts += [one.split()[0] for one in found[name].split(",") if one.strip()]

    def handle_data(self, data: str) -> None:
        if self._style:
            self._inline(data)

    def _inline(self, text: str) -> None:
        self.parts += [first or second for first, second in _STYLE.findall(text)]


def outside(address: str) -> bool:
    """Whether a browser would ask another server."""
    return re.match(r"(?i)(https?:)?//", address) is not None


def problems(site: Path) -> list[str]:
    """One line for each; none means that the site is whole and loads nothing from elsewhere."""
    read: dict[str, _Reader] = {}
    for file in sorted(site.rglob("*.html")):
        reader = read[file.relative_to(site).as_posix()] = _Reader()
        reader.feed(file.read_text(encoding="utf-8"))
    found = []
    for page, reader in read.items():
        found += [f"{page}: loads {part}" for part in reader.parts if outside(part)]
        if page == "404.html":
            continue
        for target in dict.fromkeys([*reader.links, *reader.parts]):
            if not re.match(r"(?i)([a-z]+:|//)", target) and not _leads(site, page, target, read):
                found.append(f"{page}: {target} leads nowhere")
    for file in sorted(site.rglob("*.css")):
        styles = _STYLE.findall(file.read_text(encoding="utf-8"))
        found += [f"{file.name}: loads {first or second}" for first, second in styles if outside(first or second)]
    return found


def _leads(site: Path, page: str, target: str, read: dict[str, _Reader]) -> bool:
    path, _, anchor = unquote(target).partition("#")
    place = posixpath.normpath(posixpath.join(posixpath.dirname(page), path.partition("?")[0])) if path else page
    place = posixpath.join(place, "index.html") if (site / place).is_dir() else place
    if not (site / place).is_file():
        return False
    return not anchor or place not in read or anchor in read[place].anchors
