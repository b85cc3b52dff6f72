"""The laws of sources on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.sources import SourceLaws
from tests.contract.sources.place import Place
from tests.contract.sources.sqlite import Sqlite


class TestSqlite(SourceLaws):
    kind = Sqlite

    @pytest.fixture(scope="class")
    @classmethod
    def made(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
        file: Path = tmp_path_factory.mktemp("laws") / "laws.sqlite3"
        with Sqlite(f"sqlite:///{file}") as place:
            yield place
