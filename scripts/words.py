"""Sentences that people read use plain words: the check of `make check`.

    python -m scripts.words [FILE...]   prints each hit as file:line, and ends with 1 if there is one

It reads the pages, but for `names`, and of Python every string: help, errors, events and docstrings.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

RULES = {
    "name the actor": r"\b(?:somebody|nobody|whoever|who(?: has| is)? (?:quicker|died)|one who|those who)\b",
    "if, when, again, at most N": r"(?<=, )where (?:it|that|there|none|one|a|the|this|they|nobody)\b|\banew\b"
    r"|\bfor so (?:many|long)\b|\bso many (?:seconds|rows|times|records|characters)\b|\byet\b(?= at most)"
    r"|\bof (?:which|whom)\b",
    "plain verbs": r"\b(?:is|are) to be (?:had|told)\b|\bnot to be had\b|\btold\b|\bmend(?:s|ed)?\b|\blanded\b(?!:)"
    r"|\bby (?:itself|themselves)\b|\b(?:stands?|stood) (?:in|there|beside|behind|at|between)\b"
    r"|(?<!\b[Tt]here )\bis no (?!longer\b)[a-z]+\b|\bin vain\b",
    "True if, The, or an imperative": r'\A"""(?:Whether|For how|How (?:many|often|long)|Until when|Since when'
    r"|Of (?:a|the|each|those|what))\b",
    "one word for one thing": r"\bpending row|rows? pending|\b\d+ pending\b|\b[Aa] look\b|\b[Aa] try\b"
    r"|\btried afresh\b|\bquicker\b|\bsilent database|\bculprit\b(?!:)|\bcondemn",
}
"""What each rule forbids. A docstring begins with three quotes here, so that a rule can mean its beginning alone."""

_PATTERNS = {name: re.compile(pattern) for name, pattern in RULES.items()}


def hits(text: str) -> Iterator[tuple[int, str, str]]:
    """Line (counted from 0), rule and words of each hit in a text."""
    for rule, pattern in _PATTERNS.items():
        for match in pattern.finditer(text):
            yield text.count("\n", 0, match.start()), rule, match[0].removeprefix('"""')


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """First line and text of what people read in a file: a page as a whole, the strings of Python one by one."""
    source = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        yield 1, re.sub(r"`[^`\s]+`|(?<=<)[^<>]*(?=>)", "`name`", source)
        return
    tree = ast.parse(source)
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, ('"""' if id(node) in bare else "") + node.value


def files() -> list[Path]:
    """The pages, those of the browser too, and the Python files that users meet."""
    pages = [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "poller").rglob("*.html"),
    ]
    return sorted([*pages, *(ROOT / "poller").rglob("*.py"), *(ROOT / "cli").rglob("*.py")])


def main(names: list[str]) -> int:
    """Print each hit; 1 if there is one, else 0."""
    found = 0
    for file in map(Path, names) if names else files():
        for first, text in texts(file):
            for line, rule, words in hits(text):
                shown = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
                print(f"{shown}:{first + line}: {words!r} ({rule})")
                found += 1
    print(f"{found} hits" if found else "Words: none that style forbids.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
