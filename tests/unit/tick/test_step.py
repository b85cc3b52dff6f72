"""What a round does next, over everything that it may see."""

from __future__ import annotations

from itertools import product

from poller.tick.step import Seen, Step, decide

ALL = [Seen(*seen) for seen in product((False, True), repeat=len(Seen._fields))]


def of(step: Step) -> list[Seen]:
    return [seen for seen in ALL if decide(seen) is step]


def test_nothing_begins_that_may_not() -> None:
    began = of(Step.START)
    assert began
    for seen in began:
        assert all((seen.wanted, seen.ready, seen.room))
        assert not any((seen.failed, seen.due, seen.stale, seen.full, seen.unwritten))


def test_rows_are_read_again_only_if_they_would_begin_else() -> None:
    assert of(Step.REFRESH)
    for seen in of(Step.REFRESH):
        assert seen.stale
        begins = seen._replace(stale=False)
        assert decide(begins) is Step.START


def test_no_page_is_read_that_nothing_may_be_made_of() -> None:
    assert of(Step.READ)
    for seen in of(Step.READ):
        assert all((seen.wanted, seen.behind))
        assert not any((seen.failed, seen.due, seen.reading, seen.unwritten))


def test_one_lane_writes_what_it_did_before_it_goes_on() -> None:
    """And only then: what is done at the end goes into the write that gives the lease back."""
    assert of(Step.LAND)
    for seen in of(Step.LAND):
        assert seen.unwritten
        written = seen._replace(unwritten=False)
        assert decide(written) in (Step.READ, Step.START, Step.REFRESH)


def test_a_round_ends_only_when_nothing_is_under_way() -> None:
    assert of(Step.CLOSE)
    for seen in of(Step.CLOSE):
        assert not seen.in_hand
        feeds = seen.wanted and not seen.failed and not seen.due
        assert not (feeds and (seen.reading or seen.behind or (seen.waiting and seen.writing)))


def test_a_round_waits_only_for_what_comes() -> None:
    """Else it would wait for ever: a call, a page or a PUT says when it is over."""
    assert of(Step.WAIT)
    for seen in of(Step.WAIT):
        assert seen.in_hand or seen.reading or seen.writing
