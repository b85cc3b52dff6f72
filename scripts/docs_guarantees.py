"""The tables of the page of guarantees: each promise stands at its tests, `@pytest.mark.guarantee(SECTION, PROMISE)`.

In the page a comment `<!-- Promises: SECTION -->` begins each table, and `<!-- End of the promises. -->` ends it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PAGE = Path("docs") / "inside" / "guarantees.md"
FIRST = ("tests/resilience", "tests/integration")
"""Folders whose tests come first in a table: they show a promise as a whole."""
IN_CONTRACTS = {
    "tests/contract/sources/laws/changes.py::test_a_change_loses_no_row_in_silence": (
        "Rows that commit late",
        (
            "A change of a table while it is read loses no row in silence: each row comes, or the poller says "
            "what it refuses, and each comes once the change is taken back. Not kept yet: what the places in "
            "`tests/contract/sources` list as `known`"
        ),
    ),
    "poller/contract/stores/documents.py::test_a_write_with_the_current_tag_replaces_and_gives_a_new_tag": (
        "Hostile and broken input",
        (
            "In a bucket of S3 no two versions of a document share a tag, and a service that ignores conditions keeps "
            "no state"
        ),
    ),
    "poller/contract/stores/logs.py::test_a_trail_is_read_up_to_16_kib_a_line": (
        "Hostile and broken input",
        "What others put into the store does not fill a process's memory: neither JSON nor the lines of a trail",
    ),
}
"""Tests of the contract suites: who writes a store imports them, and has no such marker."""
_TABLE = re.compile(r"(<!-- Promises: (.+?) -->\n).*?(<!-- End of the promises\. -->\n)", re.DOTALL)


def guarantees() -> str:
    """The page with its tables written again. Raises: SystemExit, for a section that the page does not have."""
    rows: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for test, section, promise in sorted(_marked(), key=lambda found: (not found[0].startswith(FIRST), found[0])):
        rows[section][promise].append(test)
    page = _TABLE.sub(lambda found: found[1] + _table(rows.pop(found[2], {})) + found[3], PAGE.read_text("utf-8"))
    if rows:
        raise SystemExit(f"{PAGE} has no section for these promises: {', '.join(sorted(rows))}")
    return page


def _table(promises: dict[str, list[str]]) -> str:
    lines = ["", "| promise | test |", "|---|---|"]
    lines += [f"| {promise.replace('|', chr(92) + '|')} | {', '.join(tests)} |" for promise, tests in promises.items()]
    return "\n".join([*lines, "", ""])


def _marked() -> Iterator[tuple[str, str, str]]:
    """Each test as the page names it, with the section and the promise of each of its markers."""
    for test, (section, promise) in IN_CONTRACTS.items():
        yield f"`{test}`", section, promise
    for path in sorted(Path("tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.guarantee(" not in text:
            continue
        module = ast.parse(text)
        for node in module.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.guarantee":
                    section, promise = map(ast.literal_eval, mark.args)
                    yield f"`{path.as_posix()}::{node.name}`{_label(module, node)}", section, promise


def _label(module: ast.Module, test: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """What a test runs under if all of it is marked so; empty for the ordinary suite. One that has a larger size in
    `make prove` and a smaller one in `make soak` is a soak."""
    marks = [ast.unparse(decorator) for decorator in test.decorator_list]
    text = " ".join(marks)
    cases = {ast.unparse(node.targets[0]): node for node in module.body if isinstance(node, ast.Assign)}
    text += " ".join(ast.unparse(node) for name, node in cases.items() if re.search(rf"\b{name}\b", text))
    if "pytest.mark.soak" in marks or ("mark.soak" in text and "mark.prove" in text):
        return " (*soak*)"
    return " (*prove*)" if "pytest.mark.prove" in marks else ""
