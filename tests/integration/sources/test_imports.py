"""What a source loads: a start waits for each module."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

_READS = """
import sys
from poller.sources import SqlSource
source = SqlSource("sqlite:///orders.db", table="orders", cursor_column="at", cursor_time_zone="UTC", pk_columns=["id"])
page = source.page(None, 10)
assert len(page.rows) == 1, page
assert source.lag(page.cursors[-1], cap=10).pending == 0
source.close()
print(*(name for name in sys.modules if name.partition(".")[0] == "sqlglot"))
"""


def test_a_table_without_a_filter_loads_no_parser(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "orders.db") as made:
        made.execute("create table orders (id integer primary key, at text not null)")
        made.execute("insert into orders values (1, '2026-01-01 00:00:00')")
    made.close()
    done = subprocess.run([sys.executable, "-c", _READS], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
