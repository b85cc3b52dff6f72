"""The long description of the package: README.md with links that work outside the repository.

A hook of the build (`[tool.hatch.metadata.hooks.custom]` in pyproject.toml). A relative link becomes an absolute one
below the addresses of `[project.urls]`: pages of docs/ below `Documentation`, everything else below `Repository`, at
the tag of this version. While there are no such addresses the link goes and its text stays: nothing dead is published.

It runs where a wheel or a source archive is built, so it imports the standard library and hatchling alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

FENCES = re.compile(r"^(```.*?^```[^\n]*\n)", re.MULTILINE | re.DOTALL)
_CODE = r"`[^`\n]*`"
_LINK = re.compile(
    rf"(?P<code>(?<!\[){_CODE}(?!\]))|(?P<image>!?)\[(?P<text>(?:{_CODE}|!\[[^\]]*\]\([^)\s]+\)|[^\[\]])*)\]"
    r"\((?P<target>[^)\s]+)\)"
)
_TAG = re.compile(r"<(?P<name>img|source|a)\b(?P<rest>[^>]*?)\s*/?>", re.IGNORECASE)
_ADDRESS = re.compile(r"""\b(?P<key>src|srcset|href)=(?P<quote>["'])(?P<target>.*?)(?P=quote)""", re.IGNORECASE)


def relink(text: str, address: Callable[[str, bool], str | None]) -> str:
    """Markdown with other targets, blocks of code left alone.

    Args:
        address: what a relative target becomes, given it and whether it is an image; None takes the link away and
            leaves its text (of an image: what stands for it).
    """

    def asked(target: str, image: bool) -> str | None:
        return target if "://" in target or target.startswith("mailto:") else address(target, image)

    def link(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        words = _LINK.sub(link, match["text"]) if "![" in match["text"] else match["text"]
        target = asked(match["target"], bool(match["image"]))
        return words if target is None else f"{match['image']}[{words}]({target})"

    def tag(match: re.Match[str]) -> str:
        image = match["name"].lower() != "a"
        found = _ADDRESS.search(match["rest"])
        if found is None:
            return match[0]
        target = asked(found["target"], image)
        if target is not None:
            return match[0].replace(found[0], f"{found['key']}={found['quote']}{target}{found['quote']}")
        words = re.search(r"""\balt=(["'])(.*?)\1""", match["rest"])
        return words[2] if words else ("<a>" if not image else "")

    parts = FENCES.split(text)
    return "".join(part if number % 2 else _TAG.sub(tag, _LINK.sub(link, part)) for number, part in enumerate(parts))


def described(readme: str, urls: Mapping[str, str], version: str) -> str:
    """README.md as a package index shows it.

    Args:
        urls: `[project.urls]`. version: of the package; its tag is `v` and the version.
    """
    repository, documentation = (urls.get(name, "").rstrip("/") for name in ("Repository", "Documentation"))

    def address(target: str, image: bool) -> str | None:
        path, mark, anchor = target.partition("#")
        if not path:
            return target
        page = re.fullmatch(r"docs/([\w/-]+)\.md", path)
        if page is not None and documentation:
            return f"{documentation}/{page[1]}.html{mark}{anchor}"
        return f"{repository}/{'raw' if image else 'blob'}/v{version}/{path}{mark}{anchor}" if repository else None

    return relink(readme, address)


class LongDescription(MetadataHookInterface):
    """Sets `readme`, which pyproject.toml declares dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Write the text into the metadata of the package."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = described(readme, metadata.get("urls", {}), metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
