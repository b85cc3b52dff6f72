"""Which pages the site has, in which order, and from which file of the repository each is made.

Sections go by what a reader wants: to start, to do something, to look something up, to understand it.
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
        Page("Example: on a laptop", "examples/quickstart.md", "examples/quickstart/README.md"),
        Page("Example: an Azure Functions app", "examples/functions.md", "examples/functions/README.md"),
    ],
    "How to": [
        _docs("Run in Azure Functions", "azure-functions"),
        _docs("Run from Python", "python"),
        _docs("Run in containers", "containers"),
        _docs("Deploy with templates", "deployment"),
        _docs("Apply each row once", "effectively-once"),
        _docs("Relay to queues, topics and webhooks", "relays"),
        _docs("Recipes", "recipes/index"),
        _docs("Handle incidents", "incidents"),
        _docs("Monitor and alert", "monitoring"),
        _docs("Export metrics and traces", "telemetry"),
        _docs("Look at the status page", "dashboard"),
        _docs("Ask over HTTP", "http"),
        _docs("Make it fast", "performance"),
        _docs("Run many pollers", "scale"),
    ],
    "Reference": [
        _docs("poller.toml", "configuration"),
        COMMANDS,
        _docs("What the console shows", "console"),
        _docs("Where the state is", "stores"),
        _docs("What is healthy", "health"),
        Page("Changelog", "changelog.md", "CHANGELOG.md"),
    ],
    "Understand": [
        _docs("What is promised", "guarantees"),
        _docs("Which rows are read", "sources"),
        _docs("When a handler fails", "failures"),
        _docs("Who may do what", "security"),
        _docs("How it works inside", "architecture"),
        Page("The model of the protocol", "proof.md", "proof/README.md"),
        _docs("Figures of the long proofs", "proofs"),
        Page("How speed is measured", "benchmarks/index.md", "benchmarks/README.md"),
        Page("What was measured", "benchmarks/results.md", "benchmarks/RESULTS.md"),
        _docs("Dependencies", "dependencies"),
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
