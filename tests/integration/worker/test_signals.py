"""SIGTERM, SIGHUP and Ctrl-C: the first asks, a later one ends the process."""

from __future__ import annotations

import os
import signal
import threading
from datetime import UTC, datetime
from typing import Any, NoReturn

import pytest

from poller.observability import BatchCommitted, BatchStarted
from poller.worker import BatchesInHand, stopped_by_signals


class Signalled:
    """This process, signalled at moments of our choosing, and what it says then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, at: list[float], again: int = 0) -> None:
        """`at`: the moments of the signals. `again`: how many of them come while the first is being reported."""
        self.said: list[str] = []
        self.moments, self.again = iter(at), again
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(os, "_exit", self.leave)

    def write(self, _: int, text: bytes) -> None:
        self.said.append(text.decode().rstrip())
        for _n in range(self.again if len(self.said) == 1 else 0):
            signal.raise_signal(signal.SIGTERM)

    def leave(self, code: int) -> NoReturn:
        raise SystemExit(code)

    def now(self) -> float:
        return next(self.moments)


def test_signals_within_half_a_second_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of GNU timeout and of service managers: one to the process, at once another to its group."""
    signalled, stop = Signalled(monkeypatch, at=[7.0, 7.0001, 7.49], again=1), threading.Event()
    with stopped_by_signals(stop, now=signalled.now):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert stop.is_set()
    assert [line.split()[1] for line in signalled.said] == ["stopping"]


def test_a_signal_counts_where_nobody_reads_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: int, __: bytes) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(os, "write", closed)
    with stopped_by_signals() as stop:
        signal.raise_signal(signal.SIGTERM)
    assert stop.is_set()


@pytest.mark.parametrize("busy", [True, False])
def test_a_later_signal_leaves_at_once(monkeypatch: pytest.MonkeyPatch, busy: bool) -> None:
    signalled, in_hand = Signalled(monkeypatch, at=[7.0, 7.1, 7.6]), BatchesInHand()
    facts: dict[str, Any] = {"poller": "orders", "at": datetime.now(UTC), "owner_id": "me", "fencing_token": 1}
    in_hand(BatchStarted(**facts, batch_id="b1", attempt=1, rows=3))
    if not busy:
        in_hand(BatchCommitted(**facts, batch_id="b1", rows=3, cursor="x", handler_seconds=0.1))
    with stopped_by_signals(threading.Event(), in_hand, now=signalled.now):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 1
    assert [line.split()[1].strip(";") for line in signalled.said] == ["stopping", "abandoned"]
    assert ("the batch in hand" in signalled.said[1]) is busy


def test_the_former_handlers_are_put_back() -> None:
    former = signal.getsignal(signal.SIGTERM)
    with stopped_by_signals() as stop:
        assert signal.getsignal(signal.SIGTERM) is not former
        assert not stop.is_set()
    assert signal.getsignal(signal.SIGTERM) is former


def test_a_closing_terminal_asks_and_abandons_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that ends signals its jobs, and the system its terminal's processes."""
    signalled = Signalled(monkeypatch, at=[7.0, 8.0, 9.0])
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
    try:
        with stopped_by_signals(now=signalled.now) as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.is_set()
            signal.raise_signal(signal.SIGHUP)
            with pytest.raises(SystemExit):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, former)
    assert [line.split()[1] for line in signalled.said] == ["stopping", "abandoned"]


def test_a_process_of_nohup_outlives_its_terminal() -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopped_by_signals() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.is_set()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, former)
