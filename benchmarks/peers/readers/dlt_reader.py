"""dlt as its documentation has it: `sql_table` with an incremental cursor, and a Python function as the destination."""

from __future__ import annotations

import logging
import os
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
os.environ["RUNTIME__LOG_LEVEL"] = "CRITICAL"

import dlt  # type: ignore[import-not-found]
from dlt.sources.sql_database import sql_table  # type: ignore[import-not-found]

from benchmarks.peers.readers import loop

logging.disable(logging.CRITICAL)
plan = loop.plan()
arrived: list[int] = []


@dlt.destination(  # type: ignore[untyped-decorator]
    batch_size=1000, name="bench", naming_convention="direct", skip_dlt_columns_and_tables=True
)
def sink(items: Any, table: Any) -> None:  # noqa: ARG001
    arrived.extend(int(item["id"]) for item in items)


def resource() -> Any:
    """Made anew for every run, as a scheduled script does; `primary_key` turns on dlt's own removal of what came again
    at the cursor's last value."""
    return sql_table(
        credentials=plan["url"],
        table="torture",
        incremental=dlt.sources.incremental(
            "updated_at", initial_value=datetime(2000, 1, 1, tzinfo=UTC), lag=plan["settings"].get("lag")
        ),
        primary_key="id",
    )


with tempfile.TemporaryDirectory() as folder:
    pipeline = dlt.pipeline(pipeline_name="bench", destination=sink, dataset_name="bench", pipelines_dir=folder)

    def poll() -> list[int]:
        arrived.clear()
        pipeline.run(resource())
        return list(arrived)

    loop.run(poll, {}, version=version("dlt"))
