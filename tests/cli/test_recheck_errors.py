"""How `poller recheck --redeliver` tells of a handler that fails on late rows."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Project

SAID = "row of Jane Doe"
MEND = "Mend it, then run: poller recheck orders --redeliver"
FAILS = f"""
class Apart(BaseException): pass
def raises(batch): raise ValueError("{SAID}\\nand more")
def exits(batch): raise SystemExit("{SAID}")
def raises_apart(batch): raise Apart("{SAID}")
async def exits_in_a_loop(batch): raise SystemExit("{SAID}")
"""


def _redelivered(project: Project, handler: str, options: str) -> str:
    project.configure("orders", poller=f'audit_window = "1h"\n{options}')
    project.insert(10)
    assert project.run("run", "--once").code == 0
    project.execute("INSERT INTO orders VALUES (500, '2025-01-01 00:00:00')")
    (project.folder / "handlers.py").write_text(FAILS + f"handle = {handler}\n")
    ended = project.run("recheck", "orders", "--redeliver", "--yes")
    assert ended.code == 1, ended.err
    return ended.err


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        ("raises", "ValueError"),
        ("exits", "SystemExit"),
        ("raises_apart", "Apart"),
        ("exits_in_a_loop", "SystemExit"),
    ],
)
def test_what_it_says_is_told_only_where_it_may_be(project: Project, handler: str, kind: str) -> None:
    told = _redelivered(project, handler, "error_text = false")
    assert told.endswith(f"orders: the handler failed on a batch of late rows: {kind}. {MEND}\n")
    assert SAID not in told


@pytest.mark.parametrize("options", ["", 'isolation = "process"'])
def test_its_type_and_first_line_are_told_wherever_it_ran(project: Project, options: str) -> None:
    assert _redelivered(project, "raises", options).endswith(f"late rows: ValueError: {SAID}. {MEND}\n")
