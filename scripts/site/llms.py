"""llms.txt, the list of pages for programs that read, llms-full.txt, all of them in one, and each page as Markdown."""

from __future__ import annotations

import itertools
import re
import shutil
from pathlib import Path

from scripts.site.navigation import Page


def write_llms(
    pages: Path, site: Path, sections: list[tuple[str, list[list[Page]]]], description: str, base: str
) -> None:
    """Write them into the site.

    Args:
        pages: the folder of the site's sources. description: of the package.
        base: the address of the site; empty: links are relative.
    """
    prefix = f"{base.rstrip('/')}/" if base else ""
    short, full = [f"# poller\n\n> {description}\n"], []
    for title, section in sections:
        short.append(f"## {title}\n")
        for page in itertools.chain.from_iterable(section):
            text = (pages / page.path).read_text(encoding="utf-8")
            (site / page.path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(pages / page.path, site / page.path)
            short.append(f"- [{page.title}]({prefix}{page.path}): {_heading(text)}")
            full.append(f"<!-- {page.path} -->\n\n{text.strip()}\n")
        short.append("")
    (site / "llms.txt").write_text("\n".join(short), encoding="utf-8")
    (site / "llms-full.txt").write_text("\n".join(full), encoding="utf-8")


def _heading(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1] if found else ""
