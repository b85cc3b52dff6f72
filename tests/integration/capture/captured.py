"""A table that is captured, and the changes that were written of it."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from poller.admin import TableCapture
from poller.config import PollerConfig
from poller.model.change_chain import Chain
from poller.runtime import SystemRuntime


@dataclass
class Captured:
    """Capture of a table, and a session of a writer in autocommit. May be used by several lanes."""

    url: str
    table: str = "orders"
    schema: str | None = None
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.engine: Engine = sa.create_engine(self.url, isolation_level="AUTOCOMMIT")
        self.writer: Connection = self.engine.connect()
        self._lock = threading.Lock()

    def capture(self, **options: Any) -> TableCapture:
        source: dict[str, Any] = {
            "url": self.url,
            "table": self.table,
            "cursor_column": "id",
            "cursor_kind": "integer+pk",
        }
        source |= {"pk_columns": ["id"]} | ({} if self.schema is None else {"schema": self.schema})
        config = PollerConfig.model_validate({"handler": "handlers:handle", "source": source})
        return TableCapture(
            "orders", config, runtime=SystemRuntime(), environ={**os.environ, **self.environ}, **options
        )

    def install(self, **options: Any) -> None:
        self.capture(**options).install()

    def run(self, *statements: str) -> list[Any]:
        """Run statements as the writer; the rows of the last one."""
        rows: list[Any] = []
        with self._lock:
            for statement in statements:
                done = self.writer.exec_driver_sql(statement, execution_options={"no_parameters": True})
                rows = list(done.all()) if done.returns_rows else []
        return rows

    def changes(self) -> list[tuple[str, Any, Any]]:
        """Operation, old and new row of each change, in order."""
        rows = self.run(f"SELECT op, old, new FROM poller_{self.table}_changes ORDER BY id")
        return [(op if isinstance(op, str) else op.decode(), _read(old), _read(new)) for op, old, new in rows]

    def ops(self) -> str:
        return "".join(op for op, _, _ in self.changes())

    def chain(self, most: int = 1_000_000) -> Chain:
        return self.capture().verify(most)

    def holds(self) -> Chain:
        """The chain, which must hold."""
        chain = self.chain()
        assert (chain.count, chain.breaks) == (0, [])
        return chain

    def close(self) -> None:
        self.writer.close()
        self.engine.dispose()


def _read(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
