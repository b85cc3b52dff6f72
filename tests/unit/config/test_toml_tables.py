"""A poller as the TOML that `poller clone-checkpoint` says to add."""

from __future__ import annotations

import tomllib
from datetime import date, datetime

from poller.config.toml_tables import tables


def test_a_table_written_as_toml_reads_back_as_it_was() -> None:
    tree = {
        "batch_size": 5,
        "error_text": True,
        "lease_ttl": "60s",
        "source": {
            "filter": 'a > "b" -- 50 % \\ \n\x7f\u2028',
            "pk_columns": ["id", "a b"],
            "at": datetime(2026, 1, 2),
        },
        "odd key": {"x": 1.5, "y": [{"z": "1"}], "d": date(2026, 1, 2)},
    }
    assert tomllib.loads(tables("pollers.orders-v2", tree)) == {"pollers": {"orders-v2": tree}}
