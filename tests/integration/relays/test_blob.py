"""`poller.relays:blob` against Azurite. What kills and late requests do is in `tests/resilience/relays`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from poller import Batch, RetryLater, Standing
from poller.errors import ConfigError, Fenced, PollerError
from poller.ports import Row
from tests.integration.relays.lake import Lake, arrow_batch, parquet_of


def batch_of(first: int, last: int, *, token: int = 1, settled: int = 0, generation: int = 0, **more: Any) -> Batch:
    """The rows from `first` to `last` of a table, which have their numbers as positions."""
    rows = [{"id": number, **more} for number in range(first, last + 1)]
    standing = Standing(app_name="shop", generation=generation, settled=settled, through=last)
    return Batch.of_rows(rows, poller_name="orders", fencing_token=token, standing=standing)


def test_a_batch_is_one_file_of_lines(lake: Lake) -> None:
    lake.relay()(batch_of(1, 3, name="Zoë"))
    ((name, content),) = lake.files().items()
    assert name.startswith("orders/0000-000000000003-")
    assert [json.loads(line) for line in content.splitlines()] == [{"id": n, "name": "Zoë"} for n in (1, 2, 3)]


def test_a_batch_that_comes_again_changes_nothing(lake: Lake) -> None:
    lake.relay()(batch_of(1, 3))
    before = lake.files()
    lake.relay()(batch_of(1, 3, token=2))
    assert lake.files() == before


def test_a_batch_cut_otherwise_lands_each_row_once(lake: Lake) -> None:
    lake.relay()(batch_of(1, 4))
    lake.relay()(batch_of(5, 6))
    lake.relay()(batch_of(1, 2, token=2))
    lake.relay()(batch_of(3, 9, token=2, settled=2))
    assert sorted(row["id"] for row in lake.rows()) == [*range(1, 10)]


def test_a_reset_lands_the_rows_again_under_other_names(lake: Lake) -> None:
    lake.relay()(batch_of(1, 3))
    lake.relay()(batch_of(1, 3, token=2, generation=1))
    assert [name.split("/")[1][:4] for name in lake.files()] == ["0000", "0001"]


def test_a_stale_owner_lands_nothing(lake: Lake) -> None:
    stale = lake.relay()
    stale(batch_of(1, 2, token=7))
    lake.relay()(batch_of(3, 4, token=8, settled=2))
    with pytest.raises(Fenced, match="under token 8; this one has 7"):
        stale(batch_of(3, 5, token=7, settled=2))
    assert sorted(row["id"] for row in lake.rows()) == [1, 2, 3, 4]


class _Ended(BaseException):
    """In place of a kill."""


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_file_that_never_came_is_sealed_and_read_as_empty(
    lake: Lake, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = lake.relay(compression=compression)

    def ends(*_: Any, **__: Any) -> bool:
        raise _Ended

    monkeypatch.setattr(relay._files, "create", ends)
    with pytest.raises(_Ended):
        relay(batch_of(1, 3))
    (named,) = json.loads(lake.client.download_blob("_poller/shop/orders.json").readall())["entries"]
    lake.relay(compression=compression)(batch_of(1, 2, token=2))
    files = lake.files()
    unpacked = {name: gzip.decompress(one) if compression == "gzip" else one for name, one in files.items()}
    assert unpacked[named["name"]] == b""
    assert sorted(json.loads(line)["id"] for one in unpacked.values() for line in one.splitlines()) == [1, 2]


def test_rows_go_to_the_folder_of_their_date(lake: Lake) -> None:
    days: list[Row] = [
        {"id": 1, "at": datetime(2026, 4, 7, 23, 59, tzinfo=UTC)},
        {"id": 2, "at": datetime.fromisoformat("2026-04-08T01:00:00+02:00")},
        {"id": 3, "at": "2026-04-08T00:00:00Z"},
        {"id": 4, "at": None},
    ]
    lake.relay(path="{poller}/dt={date}", date_column="at")(Batch.of_rows(days, poller_name="orders"))
    found = {name.split("/")[1]: [row["id"] for row in lake.rows(name)] for name in lake.files()}
    assert found == {"dt=2026-04-07": [1, 2], "dt=2026-04-08": [3], "dt=__HIVE_DEFAULT_PARTITION__": [4]}


def test_a_date_column_that_rows_do_not_have_is_refused(lake: Lake) -> None:
    with pytest.raises(ConfigError, match="names at"):
        lake.relay(path="{poller}/{date}", date_column="at")(batch_of(1, 1))


def test_chosen_columns_have_the_names_of_the_target(lake: Lake) -> None:
    lake.relay(columns={"order": "id"}, path="{date}", date_column="day")(batch_of(1, 2, day=date(2026, 4, 7)))
    assert lake.rows("2026-04-07/") == [{"order": 1}, {"order": 2}]


def test_chosen_columns_of_parquet_are_those_of_its_files(lake: Lake) -> None:
    columns = {"total": "n", "order": "id"}
    lake.relay(columns=columns, format="parquet", path="p")(arrow_batch([{"id": 3, "n": 5, "x": 1}]))
    (content,) = lake.files("p/").values()
    assert parquet_of(content).to_pylist() == [{"total": 5, "order": 3}]
    with pytest.raises(ConfigError, match="names n, which the rows do not have"):
        lake.relay(columns=columns, format="parquet", path="q")(arrow_batch([{"id": 3}]))


def test_gzip_holds_the_same_lines(lake: Lake) -> None:
    lake.relay(compression="gzip")(batch_of(1, 2))
    ((name, content),) = lake.files().items()
    assert name.endswith(".jsonl.gz")
    assert gzip.decompress(content) == b'{"id":1}\n{"id":2}\n'


def test_parquet_columns_keep_their_types_over_batches(lake: Lake) -> None:
    def read() -> Mapping[int, pa.Table]:
        tables = map(parquet_of, lake.files().values())
        return {table.column("id")[0].as_py(): table for table in tables}

    relay = lake.relay(format="parquet")
    relay(arrow_batch([{"id": 1, "delay": None, "total": 1.5}]))
    relay(arrow_batch([{"id": 2, "delay": 7, "total": None}], fencing_token=2))
    relay(arrow_batch([{"id": 3, "delay": None, "total": 2}], fencing_token=2))
    assert [str(field.type) for field in read()[1].schema] == ["int64", "null", "double"]
    assert [str(field.type) for field in read()[2].schema] == ["int64", "int64", "double"]
    assert read()[3].schema == read()[2].schema
    assert read()[3].to_pylist() == [{"id": 3, "delay": None, "total": 2.0}]
    with pytest.raises(PollerError, match='"delay" is of the type string now, and int64'):
        relay(arrow_batch([{"id": 4, "delay": "late", "total": 1.0}], fencing_token=2))


def typed(type_: Any, id_: int, value: Any, token: int = 1) -> Batch:
    schema = pa.schema([("id", pa.int64()), ("n", type_)])
    return arrow_batch([{"id": id_, "n": value}], schema, fencing_token=token)


@pytest.mark.guarantee(
    "Delivery",
    "A Parquet column that becomes wider goes on, and one whose type no longer fits goes on under another `path`",
)
@pytest.mark.parametrize(
    ("narrow", "wide", "value"),
    [(pa.int32(), pa.int64(), 5_000_000_000), (pa.int16(), pa.int32(), 70_000), (pa.float32(), pa.float64(), 0.1)],
)
def test_a_parquet_column_that_becomes_wider_goes_on(lake: Lake, narrow: Any, wide: Any, value: Any) -> None:
    relay = lake.relay(format="parquet")
    relay(typed(narrow, 1, 1))
    relay(typed(wide, 2, value))
    lake.relay(format="parquet")(typed(narrow, 3, 3, 2))
    tables = {table["id"][0].as_py(): table for table in map(parquet_of, lake.files().values())}
    assert [tables[one].schema.field("n").type for one in (1, 2, 3)] == [narrow, wide, wide]
    assert [tables[one]["n"][0].as_py() for one in (1, 2, 3)] == [1, value, 3]


def test_a_type_that_does_not_fit_lands_under_another_path(lake: Lake) -> None:
    """As the error says; there it is the type from then on."""
    lake.relay(format="parquet")(typed(pa.int64(), 1, 1))
    late = typed(pa.string(), 2, "late", 2)
    for _ in range(2):
        with pytest.raises(PollerError, match="of the type string now") as refused:
            lake.relay(format="parquet")(late)
        assert "another path" in refused.value.next_step
    lake.relay(format="parquet", path="{poller}-v2")(late)
    lake.relay(format="parquet", path="{poller}-v2")(typed(pa.string(), 3, "later", 2))
    files = {name: parquet_of(content) for name, content in lake.files("orders").items()}
    found = sorted((name.partition("/")[0], table["id"][0].as_py()) for name, table in files.items() if len(table))
    assert found == [("orders", 1), ("orders-v2", 2), ("orders-v2", 3)]
    assert all(table.schema.metadata is None for table in files.values())


def test_parquet_needs_a_source_with_arrow(lake: Lake) -> None:
    with pytest.raises(ConfigError, match='format = "arrow"'):
        lake.relay(format="parquet")(batch_of(1, 1))


def test_a_missing_container_is_an_error_where_none_may_be_made(lake: Lake) -> None:
    with pytest.raises(PollerError, match=f"az storage container create --name {lake.container}"):
        lake.relay(create=False)(batch_of(1, 1))


def test_check_says_whether_the_container_is_there(lake: Lake) -> None:
    assert [one.message for one in lake.relay().checkup()] == [
        f"the container {lake.container} is not there, and is made with the first file"
    ]
    assert [one.severity for one in lake.relay(create=False).checkup()] == ["error"]
    lake.relay()(batch_of(1, 1))
    assert [one.message for one in lake.relay(create=False).checkup()] == [f"the container {lake.container} is there"]


def test_an_answer_that_is_lost_lands_the_row_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    relay = lake.relay()
    create = relay._files.create

    def lost(*given: Any, **more: Any) -> bool:
        create(*given, **more)
        raise RetryLater("no answer came")

    monkeypatch.setattr(relay._files, "create", lost)
    with pytest.raises(RetryLater):
        relay(batch_of(1, 3))
    monkeypatch.setattr(relay._files, "create", create)
    relay(batch_of(1, 5, token=2))
    assert sorted(row["id"] for row in lake.rows()) == [1, 2, 3, 4, 5]


def test_a_ledger_that_somebody_overwrote_is_named(lake: Lake) -> None:
    lake.relay()(batch_of(1, 1))
    lake.client.upload_blob("_poller/shop/orders.json", b"{}", overwrite=True)
    with pytest.raises(PollerError, match=r"the blob _poller/shop/orders\.json in container"):
        lake.relay()(batch_of(2, 2, settled=1))
