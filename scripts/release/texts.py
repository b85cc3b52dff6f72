"""What a release says of itself: version, change log and long description agree, and can be shown."""

from __future__ import annotations

import re
import subprocess
import sys
from email import message_from_string
from html.parser import HTMLParser
from pathlib import Path

from readme_renderer import markdown

_SECTION = re.compile(
    r"^## \[(?P<name>[^\]]+)\](?: - (?P<day>\d{4}-\d{2}-\d{2}))?[ \t]*\n(?P<text>.*?)(?=^## |\Z)",
    re.MULTILINE | re.DOTALL,
)
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
"""The headings below a version that Keep a Changelog knows."""


def version_problems(version: str, changelog: str, tag: str = "") -> list[str]:
    """In what version, change log and tag do not agree.

    Args:
        version: of pyproject.toml. changelog: the text. tag: that the release will have, such as `v0.1.0`; empty: it is
            not made yet, and what is new may stand under *Unreleased*.
    """
    sections = {match["name"]: match for match in _SECTION.finditer(changelog)}
    released = [name for name in sections if name != "Unreleased"]
    found = []
    if "Unreleased" not in sections:
        found.append("CHANGELOG.md has no section [Unreleased].")
    undated = [name for name in released if not sections[name]["day"]]
    found += [f"CHANGELOG.md: [{name}] has no day." for name in undated]
    kinds = re.findall(r"^### (.+)$", changelog, re.MULTILINE)
    found += [f"CHANGELOG.md: {one!r} is no heading of Keep a Changelog." for one in sorted({*kinds} - KINDS)]
    news = "Unreleased" in sections and bool(sections["Unreleased"]["text"].strip())
    if tag and tag != f"v{version}":
        found.append(f"The tag {tag} is not that of the version {version}: v{version}.")
    if tag and released[:1] != [version]:
        found.append(f"CHANGELOG.md: the newest section is not [{version}].")
    if tag and news:
        found.append("CHANGELOG.md: what is under [Unreleased] belongs under the version.")
    if not tag and released[:1] == [version] and news:
        found.append(f"CHANGELOG.md has news since [{version}], and pyproject.toml still that version.")
    if not tag and version not in released and not news:
        found.append(f"CHANGELOG.md says nothing of version {version}.")
    return found


class _Addresses(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.found += [value or "" for name, value in attrs if name in ("href", "src", "srcset")]


def description_addresses(text: str) -> list[str] | None:
    """The addresses in a long description, as an index renders it; None where it cannot be rendered."""
    html = markdown.render(text)
    if html is None:
        return None
    reader = _Addresses()
    reader.feed(html)
    return reader.found


def description_problems(metadata: str) -> list[str]:
    """What an index could not show of a package's description.

    Args:
        metadata: the file METADATA or PKG-INFO.
    """
    message = message_from_string(metadata)
    addresses = description_addresses(str(message.get_payload()))
    if addresses is None:
        return ["The long description cannot be rendered."]
    return [f"The long description has a dead link: {one}" for one in addresses if not re.match("https://|#", one)]


def twine_problems(files: list[Path]) -> list[str]:
    """What `twine check --strict` says; it asks no index."""
    command = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [done.stdout + done.stderr]
