"""`poller.relays:stdout`: lines of JSON, and nothing else."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from poller import Batch, RetryLater
from poller.relays import relay

ROWS: list[dict[str, Any]] = [{"id": 1, "name": "Zoë\n"}, {"id": 2, "name": None}]


def test_each_row_is_a_line_of_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    relay("stdout")(Batch.of_rows(ROWS))
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == ROWS
    assert "".join(lines).isascii()


def test_an_envelope_has_an_id_that_stays(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        relay("stdout", envelope=True)(Batch.of_rows(ROWS))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["row"] for line in lines] == ROWS * 2
    assert lines[:2] == lines[2:]
    assert {line["poller"] for line in lines} == {"test"}
    assert len({line["id"] for line in lines}) == 2


def test_a_batch_is_flushed_before_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(arrived, 1 << 20)))
    relay("stdout")(Batch.of_rows(ROWS))
    assert len(arrived.getvalue().splitlines()) == 2


def test_that_nobody_reads_is_no_rows_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(RetryLater, match="BrokenPipeError"):
        relay("stdout")(Batch.of_rows(ROWS))
