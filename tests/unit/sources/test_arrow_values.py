"""Tables that are built of a driver's values, statements with literals, and what configuration is refused."""

from __future__ import annotations

import importlib
import pickle
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import psycopg

from poller.errors import ConfigError, SourceError
from poller.sources import SqlSource
from poller.sources.postgresql.arrow import NoLiteral, with_literals

KEYS: dict[str, Any] = {"table": "t", "cursor_column": "at", "pk_columns": ["id"]}


def test_json_that_is_parsed_and_arrow_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="json") as refused:
        SqlSource("sqlite:///x.db", format="arrow", json="parsed", **KEYS)
    assert refused.value.key == "format"


@pytest.mark.parametrize(("url", "missing"), [
    ("sqlite:///x.db", "pyarrow"), ("postgresql+psycopg://db/x", "adbc_driver_postgresql.dbapi"),
])  # fmt: skip
def test_a_missing_package_names_the_extra(url: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing != "pyarrow":
        pytest.importorskip("pyarrow")
    real = importlib.import_module

    def absent(name: str, package: str | None = None) -> Any:
        if name == missing:
            raise ImportError(f"No module named {name}")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ConfigError, match=missing.partition(".")[0].replace("_", "-")) as refused:
        SqlSource(url, format="arrow", **KEYS)
    assert "extra arrow" in refused.value.next_step


def written(sql: str, **values: Any) -> str:
    """A statement of psycopg's with its values in it."""
    made: Any = psycopg.dialect
    return with_literals(sa.text(sql).compile(dialect=made()), values)


def test_a_statement_means_what_it_means_with_parameters() -> None:
    assert written("a = :x AND b > CAST(:y AS text)", x=1, y="b") == "a = 1 AND b > CAST('b' AS text)"
    kept = " LIKE 'a%' AND s <> '%(x)s' AND n % 2 = "
    assert written(f"f \\:\\: x{kept}:x", x=1) == f"f :: x{kept}1"
    assert written("'10\\:30' || :x", x=":y %(x)s %%") == "'10:30' || ':y %(x)s %%'"


def test_literals_quote_and_refuse() -> None:
    assert written(":x", x=-5) == "(-5)"
    assert written(":x", x="o'x") == "'o''x'"
    assert written(":x", x="\\'") == "E'\\\\'''"
    assert written(":x", x=b"\x00'") == "decode('0027', 'hex')"
    for none in (1.5, None, "a\0b", "\ud800", True):
        with pytest.raises(NoLiteral):
            written(":x", x=none)


def test_values_get_types_that_lose_nothing() -> None:
    pa = pytest.importorskip("pyarrow")
    from poller.sources.arrow import Built

    when = datetime(2026, 1, 1, 12, tzinfo=UTC)
    columns: dict[str, list[Any]] = {
        "n": [1, None], "f": [1, 2.5], "s": ["a", None], "b": [bytearray(b"x"), b"y"], "d": [date(2026, 1, 1), None],
        "z": [when, None], "t": [datetime(2026, 1, 1), None], "c": [time(1), None], "i": [timedelta(days=2), None],
        "p": [Decimal("1.10"), Decimal("NaN")], "u": [UUID(int=1), None], "o": [True, None], "none": [None, None],
        "l": [[1, 2], None],
    }  # fmt: skip
    types: dict[str, Any] = {}
    built = Built(list(zip(*columns.values(), strict=True)), list(columns), types, "things")
    table = built.arrow()
    assert {name: str(table.schema.field(name).type) for name in columns} == {
        "n": "int64", "f": "double", "s": "string", "b": "binary", "d": "date32[day]", "z": "timestamp[us, tz=UTC]",
        "t": "timestamp[us]", "c": "time64[us]", "i": "duration[us]", "p": "string", "u": "string", "o": "bool",
        "none": "null", "l": "list<item: int64>",
    }  # fmt: skip
    assert table.column("p").to_pylist() == ["1.10", "NaN"]
    assert built.take([1]).arrow().num_rows == 1
    assert built.slice(1, 2).join([built]).arrow().num_rows == 3
    assert pickle.loads(pickle.dumps(built)).arrow().equals(table)
    later = Built([(None,)], ["n"], types, "things").arrow()
    assert later.schema.field("n").type == pa.int64(), "as before, although nothing shows it"
    for odd in ([1, "x"], [2**53 + 1, 0.5], [2**64, 1], [when, datetime(2026, 1, 1)], [1, True]):
        with pytest.raises(SourceError, match="column v"):
            Built([(one,) for one in odd], ["v"], {}, "things").arrow()


@pytest.mark.parametrize(("first", "then"), [
    pytest.param(1, 1.5, id="integer-float"), pytest.param(1, Decimal("1.5"), id="integer-decimal"),
    pytest.param(b"x", "x", id="bytes-text"), pytest.param([1], [1.5], id="lists"),
    pytest.param(date(2026, 1, 1), datetime(2026, 1, 1, 12), id="day-time"),
    pytest.param(datetime(2026, 1, 1, 12), 7, id="time-integer"),
    pytest.param(datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 12), id="zone-none"),
])  # fmt: skip
def test_the_type_of_an_earlier_page_changes_no_value(first: Any, then: Any) -> None:
    """pyarrow makes 1 of 1.5, and midnight of noon, where it is told the type."""
    pytest.importorskip("pyarrow")
    from poller.sources.arrow import Built

    types: dict[str, Any] = {}
    before = Built([(first,)], ["v"], types, "things")
    assert before.arrow().column("v").to_pylist() == [first]
    after = Built([(then,)], ["v"], types, "things")
    wanted = str(then) if isinstance(then, Decimal) else then
    found = after.arrow().column("v").to_pylist()
    assert (found, type(found[0])) == ([wanted], type(wanted))
    if isinstance(then, float):
        assert before.join([after]).arrow().column("v").to_pylist() == [1.0, 1.5]
    elif not isinstance(then, list):
        with pytest.raises(SourceError, match="column v"):
            before.join([after]).arrow()


@pytest.mark.parametrize("then", [pytest.param(["x"], id="integer-text"), pytest.param([b"x"], id="integer-bytes")])
def test_pages_of_types_that_do_not_fit_are_no_batch(then: list[Any]) -> None:
    pa = pytest.importorskip("pyarrow")
    from poller.sources.arrow import Whole

    for first in ([1], ["x"] if then == [b"x"] else [1]):
        with pytest.raises(SourceError, match="column v"):
            Whole(pa.table({"v": first})).join([Whole(pa.table({"v": then}))])
    both = Whole(pa.table({"v": pa.array([1], pa.int32())})).join([Whole(pa.table({"v": [2], "w": ["new"]}))])
    assert both.arrow().to_pylist() == [{"v": 1, "w": None}, {"v": 2, "w": "new"}]
