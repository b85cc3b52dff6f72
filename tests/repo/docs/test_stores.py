"""docs/python.md: a store of one's own under the laws, as shown."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.repo.docs.blocks import ROOT
from tests.repo.docs.recipe import parts

SHOWN, TESTED = (one.text for one in parts("docs/python.md", "A store of your own"))


def laws(folder: Path, store: str) -> subprocess.CompletedProcess[str]:
    """What pytest says in a folder with the two files that the page shows."""
    (folder / "shop_store.py").write_text(store)
    (folder / "test_shop_store.py").write_text(TESTED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop_store.py"]
    return subprocess.run(
        command, cwd=folder, env={"PATH": "", "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120
    )


def test_a_store_of_ones_own_keeps_the_laws_as_shown(tmp_path: Path) -> None:
    done = laws(tmp_path, SHOWN)
    assert done.returncode == 0, done.stdout
    found = re.search(r"^(\d+) passed, (\d+) skipped", done.stdout, re.MULTILINE)
    assert found is not None
    assert int(found[1]) >= 40
    assert int(found[2]) == 5  # of listings


def test_a_store_that_ignores_conditions_fails_by_name(tmp_path: Path) -> None:
    broken = SHOWN.replace("            self._check(name, if_tag)\n            tag =", "            tag =")
    assert broken != SHOWN
    done = laws(tmp_path, broken)
    assert done.returncode == 1
    assert "test_a_write_with_a_stale_tag_changes_nothing" in done.stdout
    assert "test_of_two_writers_with_the_same_tag_exactly_one_wins" in done.stdout
    assert "assert [False, False].count(False) == 1" in done.stdout or "DID NOT RAISE" in done.stdout
