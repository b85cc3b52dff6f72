"""Which pages the site has, in which order, and from which file of the repository each is made.

Sections go by what a reader wants: to start, to build, to operate, to look something up, to see the inside.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Page:
    """A page of the site."""

    title: str
    """As the navigation calls it."""

    path: str
    """In the site, such as `getting-started.md`."""

    source: str
    """In the repository, such as `docs/getting-started.md`."""


def _docs(title: str, name: str) -> Page:
    return Page(title, f"{name}.md", f"docs/{name}.md")


COMMANDS = _docs("Commands", "cli")
"""A page of its own for every command stands below it."""

SECTIONS: dict[str, list[Page]] = {
    "Start": [
        Page("What it is", "index.md", "README.md"),
        _docs("Getting started", "getting-started"),
        _docs("Concepts", "concepts"),
        Page("Example: on a laptop", "examples/quickstart.md", "examples/quickstart/README.md"),
        Page("Example: an Azure Functions app", "examples/functions.md", "examples/functions/README.md"),
        Page("Example: each store", "examples/stores.md", "examples/stores/README.md"),
    ],
    "Build": [
        _docs("Sources", "sources"),
        _docs("Changes, deletes, any table", "capture"),
        _docs("Handlers", "handlers"),
        _docs("Failures", "failures"),
        _docs("Relays: targets without code", "relays"),
        _docs("Azure Functions", "azure-functions"),
        _docs("Containers", "containers"),
        _docs("Performance", "performance"),
        _docs("Recipes", "recipes/index"),
    ],
    "Operate": [
        _docs("Incidents", "incidents"),
        _docs("Health, alerts, metrics, status page", "health"),
        _docs("HTTP", "http"),
        _docs("Security", "security"),
    ],
    "Reference": [
        COMMANDS,
        _docs("poller.toml", "configuration"),
        _docs("Python", "python"),
        _docs("Stores", "stores"),
        Page("Changelog", "changelog.md", "CHANGELOG.md"),
    ],
    "Inside": [
        _docs("Architecture", "inside/architecture"),
        _docs("Rules", "inside/rules"),
        _docs("Guarantees and their tests", "inside/guarantees"),
        _docs("Figures of the long proofs", "inside/proofs"),
        Page("The model of the protocol", "proof.md", "proof/README.md"),
        Page("How speed is measured", "benchmarks/index.md", "benchmarks/README.md"),
        Page("What was measured", "benchmarks/results.md", "benchmarks/RESULTS.md"),
        _docs("Dependencies", "inside/dependencies"),
    ],
    "Take part": [
        Page("Contributing", "contributing.md", "CONTRIBUTING.md"),
        Page("Reporting a weakness", "security-policy.md", "SECURITY.md"),
    ],
}


def pages(root: Path) -> list[Page]:
    """All of a repository in order, those of single commands left out."""
    return [one for section in SECTIONS.values() for page in section for one in (page, *below(root, page))]


def below(root: Path, page: Page) -> list[Page]:
    """The other pages of a folder of docs/, behind its `index.md`, in the order in which that one links to them."""
    folder = (root / page.source).parent
    if not re.fullmatch(r"docs/.+/index\.md", page.source) or not folder.is_dir():
        return []
    index = (root / page.source).read_text(encoding="utf-8")
    names = [path.name for path in sorted(folder.glob("*.md")) if path.name != "index.md"]
    names.sort(key=lambda name: index.find(f"({name}") if f"({name}" in index else len(index))
    return [
        Page(_heading(folder / name), posixpath.join(posixpath.dirname(page.path), name), f"docs/{folder.name}/{name}")
        for name in names
    ]


def _heading(file: Path) -> str:
    found = re.search(r"^# (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else file.stem
