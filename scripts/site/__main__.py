"""Build the site: `python -m scripts.site [FOLDER]` writes it into FOLDER/site; without one, into build/docs/site."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from scripts.site.inspection import problems
from scripts.site.llms import write_llms
from scripts.site.sources import BrokenSource, write

ROOT = Path(__file__).resolve().parents[2]


def build(root: Path, folder: Path) -> list[str]:
    """Build the site of a repository into `site` of a folder, which is emptied. Returns: what is wrong with it."""
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    urls = project.get("urls", {})
    site = folder / "site"
    try:
        sections = write(root, folder, urls)
    except BrokenSource as error:
        return [str(error)]
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", "zensical.toml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return _complaints(done.stderr) or [done.stdout + done.stderr]
    write_llms(folder / "pages", site, sections, project["description"], urls.get("Documentation", ""))
    return problems(site)


def _complaints(text: str) -> list[str]:
    """The generator's warnings, a line each; it draws boxes around the place."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return [f"{place}: {what}" for what, place in re.findall(r"Warning: (.+)\n.*\[ (\S+) \]", plain)]


def main(arguments: list[str]) -> int:
    """Build, and say what is wrong; returns the exit code."""
    folder = Path(arguments[0]).resolve() if arguments else ROOT / "build" / "docs"
    wrong = build(ROOT, folder)
    print("\n".join(wrong) if wrong else f"built {folder / 'site'}", file=sys.stderr if wrong else sys.stdout)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
