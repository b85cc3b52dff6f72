"""Fenced blocks of a Markdown page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str, language: str | None = None) -> list[Block]:
    """The page's blocks in order; `page` relative to the repository."""
    text = (ROOT / page).read_text()
    found = [Block(page, text[: match.start()].count("\n") + 1, match[1], match[2]) for match in _FENCE.finditer(text)]
    return [block for block in found if language is None or block.language == language]


def pages() -> list[str]:
    """README and every page of docs/."""
    return ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


GETTING_STARTED = "docs/getting-started.md"


def run(arguments: list[str], folder: Path, **environment: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        arguments,
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}\n{done.stderr}"
    return done.stdout
