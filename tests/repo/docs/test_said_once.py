"""What a page says, another page links to: two copies of a sentence part with time."""

from __future__ import annotations

import re
from collections import defaultdict

from tests.repo.docs.blocks import ROOT, pages

LONGEST = 15
"""Words that two pages may have in a row: a sentence that both need, such as what a bound is."""
GENERATED = ("docs/cli.md", "docs/configuration.md", "docs/inside/guarantees.md")
"""From the help, the options and the tests, which say their own."""


def test_no_two_pages_share_a_long_run_of_words() -> None:
    said: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for page in pages():
        if page in GENERATED:
            continue
        prose = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
        prose = re.sub(r"\]\([^)]*\)", "]", prose)
        for paragraph in re.split(r"\n\n|\n(?=[-|#*])", prose):
            words = re.findall(r"[a-z0-9`']+", paragraph.lower())
            for begin in range(len(words) - LONGEST):
                said[tuple(words[begin : begin + LONGEST + 1])].add(page)
    assert {" ".join(words): sorted(both) for words, both in said.items() if len(both) > 1} == {}
