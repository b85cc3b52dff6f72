"""What a handler can say, wherever it runs: sync, async, within a running event loop, in a process of its own."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from poller import Batch, Reject, RetryLater
from poller.handler import CallResult, HandlerFailure, InvalidReport, ProcessExecutor, RowError
from poller.model.redact import LIMIT
from poller.runtime import SystemRuntime
from tests.support import sayings
from tests.support.sayings import EndsEarly, Fails, Raises, Returns, Saying
from tests.unit.handler.calls import ROWS, Run, end_of, in_thread, of


def expected(saying: Saying) -> tuple[str, tuple[int, ...], tuple[int, ...], float]:
    """The table of failures.md."""
    if saying.end == "raise":
        return "raised", (), (), 0.0
    if saying.end == "later":
        return "later", (), (), 120.0
    if saying.end != "return":
        return "rejected", (), (int(saying.end[-1]),), 0.0
    rejected = tuple(position for position, way in enumerate(saying.ways) if "reject" in way)
    named = tuple(position for position, way in enumerate(saying.ways) if way != "done" and position not in rejected)
    return "returned", named, rejected, 0.0


def test_each_way_to_name_each_row_means_what_the_table_says(run: Run) -> None:
    for end in sayings.ENDS:
        for ways in itertools.product(sayings.WAYS, repeat=len(ROWS)):
            saying = Saying(ways, end)
            assert end_of(run, saying) == expected(saying), saying


def test_anything_else_returned_is_every_row_done(run: Run) -> None:
    for name in sayings.VALUES:
        assert run(Returns("value", name)) == CallResult(), name


def test_unusual_forms_name_their_row_once(run: Run) -> None:
    for name in sayings.WELL_FORMED:
        result = run(Returns("well formed", name))
        assert result.failed == (RowError(0, "RowFailed", "named in batchItemFailures"),), name
        assert str(result.error) == "1 of 3 rows failed, the first with named in batchItemFailures"


def raised_by(run: Run, handler: Any) -> tuple[str, str]:
    """Type and text of what makes the whole batch fail."""
    with pytest.raises((InvalidReport, HandlerFailure, LookupError, AttributeError)) as failure:
        run(handler)
    error = failure.value
    return error.kind if isinstance(error, HandlerFailure) else type(error).__name__, str(error)


def test_a_malformed_form_fails_the_whole_batch(run: Run) -> None:
    for name in sayings.MALFORMED:
        kind, text = raised_by(run, Returns("malformed", name))
        assert kind == "InvalidReport", name
        assert len(text) < LIMIT, "it is shown whole"
        assert text.isprintable(), name


def test_a_form_that_cannot_be_read_fails_the_whole_batch(run: Run) -> None:
    for name in sayings.BREAKING:
        assert raised_by(run, Returns("malformed", name)) == ("LookupError", "ask nobody"), name


def test_an_identifier_of_another_batch_is_quoted_safely() -> None:
    _, text = raised_by(in_thread, Returns("malformed", "unknown"))
    assert text.startswith(r'batchItemFailures: "orders/77\x1b[2J/x" is not of this batch, which failed as a whole.')
    _, text = raised_by(in_thread, Returns("malformed", "of a million"))
    assert '"' + "z" * 99 + '…"' in text


@pytest.mark.parametrize("name", ["a copy", "no row"])
def test_a_reject_of_no_row_of_the_batch_fails_it_whole(run: Run, name: str) -> None:
    kind, _ = raised_by(run, Raises(name))
    assert kind == ("InvalidReport" if name == "a copy" else "AttributeError")


@pytest.mark.parametrize(("name", "seconds"), [("garbage", 30.0), ("text", 120.0), ("years", 86_400.0)])
def test_an_outage_is_one_whatever_its_exception_holds(run: Run, name: str, seconds: float) -> None:
    result = run(Raises(name))
    assert (result.end, result.seconds, result.named) == ("later", seconds, ())


ODD_ERRORS = [
    ("of no class", "OfNoClass", "x"),
    ("silent", "Silent", ""),
    ("nameless", "Nameless", "x"),
    ("text", "RowFailed", ""),
    ("lines", "ValueError", "first"),
    ("control", "RowFailed", r"\x1b[2Jgone"),
    ("nothing", "RowFailed", ""),
    ("no error", "NoneType", "None"),
]


def test_rows_may_have_odd_errors(run: Run) -> None:
    for error, kind, text in ODD_ERRORS:
        assert run(Fails(error)).failed == tuple(RowError(at, kind, text) for at in range(3)), error


def test_an_error_of_a_row_need_not_leave_its_process(run: Run) -> None:
    for row in run(Fails("of its process")).failed:
        assert row.kind == "OfItsProcess"
        assert row.text.startswith("<object object at ")


def test_the_error_of_a_row_is_bounded_and_holds_no_secret(run: Run) -> None:
    for row in run(Fails("secret")).failed:
        assert row.text.startswith("pwd=*** yyy")
        assert len(row.text) == LIMIT


def test_what_is_raised_is_reported_with_its_text(run: Run) -> None:
    for end, kind, text in (
        ("Reject 0", "Reject", "no such country"),
        ("later", "RetryLater", "the warehouse is down"),
    ):
        error = run(Saying(("done",) * 3, end)).error
        assert error is not None
        assert (error.kind if isinstance(error, HandlerFailure) else type(error).__name__, str(error)) == (kind, text)


# --- in a process of its own ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "limit", "kind"), [("dies", 60.0, "HandlerDied"), ("hangs", 0.0, "HandlerTimeout")])
def test_rows_named_by_a_process_that_is_cut_count_for_nothing(how: str, limit: float, kind: str) -> None:
    executor = ProcessExecutor(SystemRuntime())
    batch = of()
    try:
        with pytest.raises(HandlerFailure) as failure:
            executor.run(EndsEarly(how), batch, batch._lease, limit)
        assert failure.value.kind == kind
        assert executor.run(Returns("value", "None"), batch, batch._lease, 60) == CallResult()
    finally:
        executor.close()


def test_a_process_that_named_rows_is_kept_for_the_next_batch() -> None:
    executor = ProcessExecutor(SystemRuntime())
    batch = of()
    try:
        results = [
            executor.run(handler, batch, batch._lease, 60)
            for handler in (Saying(("fail",) * 3), Saying(("done",) * 3, "Reject 0"), Saying(("done",) * 3, "later"))
        ]
        assert [result.end for result in results] == ["returned", "rejected", "later"]
        assert executor._child is not None
        assert executor._child.asked == 4, "the first one lets it import the handler"
        assert batch.failures == (), "the batch of the parent hears of them by the result"
    finally:
        executor.close()


# --- in one place ----------------------------------------------------------------------------------------------------


class Transaction:
    """A fence of a sink that has noted the first row as applied."""

    def problem(self) -> str | None:
        return None

    def remembers(self, position: int) -> bool:
        return position == 0


@pytest.mark.parametrize("end", ["return", "Reject 0"])
def test_a_row_that_a_sink_noted_cannot_be_reported(end: str) -> None:
    batch = of()
    batch.fences.append(Transaction())
    with pytest.raises(InvalidReport, match=r"Row 1 of 3 .* a sink has noted it as applied"):
        in_thread(Saying(("form", "done", "done"), end), batch)


def test_a_row_named_before_its_sink_noted_it_may_be_repeated() -> None:
    batch = of()
    batch.fail(batch.rows[0], "early")
    batch.fences.append(Transaction())
    result = in_thread(Saying(("form", "form", "done")), batch)
    assert [(row.position, row.text) for row in result.failed] == [(0, "early"), (1, "named in batchItemFailures")]


def test_a_transaction_left_open_outweighs_named_rows() -> None:
    class Open(Transaction):
        def problem(self) -> str | None:
            return "still open"

    batch = of()
    batch.fences.append(Open())
    with pytest.raises(HandlerFailure, match="still open"):
        in_thread(Saying(("done", "form", "done")), batch)


def test_rows_with_equal_keys_are_named_together() -> None:
    """Only batches made by hand have such: which one is meant is not known, and none may pass for done."""
    batch = Batch.of_rows([{"id": 1}, {"id": 2}, {"id": 1}])
    result = in_thread(Saying(("form", "done", "done")), batch)
    assert [row.position for row in result.failed] == [0, 2]


@pytest.mark.parametrize(
    ("after", "seconds"),
    [("0s", 1.0), ("999ms", 1.0), ("30s", 30.0), ("1d", 86_400.0), ("25h", 86_400.0), (timedelta(minutes=2), 120.0)],
)
def test_a_pause_is_from_a_second_to_a_day(after: str | timedelta, seconds: float) -> None:
    def later(_: Batch) -> None:
        raise RetryLater("down", after=after)

    assert in_thread(later).seconds == seconds


@pytest.mark.parametrize("after", ["", "soon", "-5s", "99999d", timedelta(-1)])
def test_a_pause_that_is_not_a_duration_is_refused(after: Any) -> None:
    with pytest.raises(ValueError, match=r"duration|10 years"):
        RetryLater("down", after=after)


@pytest.mark.parametrize("after", [30, 1.5, None, b"30s", float("nan")])
def test_a_pause_of_another_type_is_refused(after: Any) -> None:
    with pytest.raises(TypeError, match="after is a duration"):
        RetryLater("down", after=after)


def test_both_exceptions_can_be_copied_and_sent_to_a_pool() -> None:
    ways: tuple[Callable[[Any], Any], ...] = (copy.copy, lambda error: pickle.loads(pickle.dumps(error)))
    for made in ways:
        reject = made(Reject({"id": 1}, "no address"))
        assert (reject.row, reject.why, str(reject)) == ({"id": 1}, "no address", "no address")
        later = made(RetryLater("down", after="2m"))
        assert (later.why, later.after, str(later)) == ("down", timedelta(minutes=2), "down")


def test_a_reject_shows_no_row() -> None:
    error = Reject({"email": "person@example.com"}, "no address")
    assert "example.com" not in f"{error} {error!r} {error.args}"


def test_many_long_errors_are_not_all_searched_for_secrets() -> None:
    """It takes seconds per million characters, and the lease is held meanwhile."""
    batch = Batch.of_rows([{"id": number} for number in range(400)])

    def handle(batch: Batch) -> None:
        for row in batch:
            batch.fail(row, ValueError(f"{row['id']} " + "x" * 10_000))

    failed = in_thread(handle, batch).failed
    assert [row.kind for row in failed] == ["ValueError"] * 400
    assert failed[0].text.startswith("0 xx")
    assert failed[-1].text == ""


def test_equal_errors_of_many_rows_are_all_shown() -> None:
    batch = Batch.of_rows([{"id": number} for number in range(2_000)])

    def handle(batch: Batch) -> None:
        for row in batch:
            batch.fail(row, "the warehouse is down: " + "x" * 1_000)

    assert {row.text[:23] for row in in_thread(handle, batch).failed} == {"the warehouse is down: "}


def test_rows_without_text_keep_their_kinds() -> None:
    result = in_thread(Saying(("fail", "reject", "done"))).without_text()
    assert result.named == (RowError(0, "LookupError"), RowError(1, "RowRejected"))
    assert [row.line for row in result.named] == ["LookupError", "RowRejected"]
