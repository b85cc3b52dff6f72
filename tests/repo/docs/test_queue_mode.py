"""What docs/azure-functions.md shows of the queue mode works together."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.repo.docs.blocks import blocks, run

PAGE = "docs/azure-functions.md"
POLLER = """
[pollers.orders]
handler = "handlers:on_orders"

[pollers.orders.source]
url = "sqlite:///shop.db"
table = "orders"
cursor_column = "updated_at"
cursor_time_zone = "UTC"
pk_columns = ["id"]
"""


def test_the_mode_and_the_host_as_shown_make_two_functions(tmp_path: Path) -> None:
    (mode,), (host,) = blocks(PAGE, "toml"), blocks(PAGE, "json")
    (tmp_path / "poller.toml").write_text(f'app_name = "shop"\n{mode.text}{POLLER}')
    (tmp_path / "host.json").write_text(host.text)
    (tmp_path / "function_app.py").write_text(blocks(PAGE, "python")[0].text)
    code = "import function_app; print(*[f.get_function_name() for f in function_app.app.get_functions()])"

    shown = run([sys.executable, "-c", code], tmp_path, AzureWebJobsStorage="UseDevelopmentStorage=true")

    assert shown.split() == ["dispatch", "work"]
