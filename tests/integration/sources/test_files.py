"""A SQLite file that is replaced or deleted under a source that has it open."""

from __future__ import annotations

from pathlib import Path

import pytest

from poller.errors import SourceUnavailable
from tests.integration.sources.tables import closing, make_orders, orders

FIRST, SECOND = "2026-01-01 00:00:00", "2026-01-02 00:00:00"


def test_a_file_that_was_replaced_is_read(tmp_path: Path) -> None:
    make_orders(f"sqlite:///{tmp_path / 'shop.db'}", [FIRST])
    make_orders(f"sqlite:///{tmp_path / 'other.db'}", [FIRST, SECOND])
    with closing(orders(f"sqlite:///{tmp_path / 'shop.db'}", bound="auto")) as source:
        last = source.page(None, 10).cursors[-1]
        assert list(source.page(last, 10).rows) == []
        (tmp_path / "other.db").replace(tmp_path / "shop.db")
        assert [row["id"] for row in source.page(last, 10).rows] == [2]


def test_a_deleted_file_is_reported_until_it_is_there_again(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    make_orders(f"sqlite:///{file}", [FIRST])
    with closing(orders(f"sqlite:///{file}", bound="auto")) as source:
        last = source.page(None, 10).cursors[-1]
        file.unlink()
        for _ in range(2):
            with pytest.raises(SourceUnavailable, match=r"no SQLite database file .*shop\.db"):
                source.page(last, 10)
        assert not file.exists()
        make_orders(f"sqlite:///{file}", [FIRST, SECOND])
        assert [row["id"] for row in source.page(last, 10).rows] == [2]
