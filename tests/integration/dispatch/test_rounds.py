"""The laws of a round: who gets a message, in which order, when again, and what looking costs."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from poller.errors import StoreUnavailable
from poller.model import transitions
from poller.model.document import decode, encode
from poller.ports import Found
from tests.support.dispatching import APP, Shop, Told, work_message

Make: TypeAlias = Callable[..., Shop]


def state_name(poller: str) -> str:
    return f"state/{APP}/{poller}.json"


def test_a_process_that_starts_reads_each_document_once(shop: Make) -> None:
    many = shop(20)
    many.started()
    many.dispatcher().round()
    assert many.counted.requests == {"LIST": 1, "GET": 21}  # and the one that says when it was looked last


def test_one_message_for_each_poller_with_rows(shop: Make) -> None:
    many = shop(5)
    dispatcher = many.started()
    many.rows("p1", "p3", "p3")
    output = many.round(dispatcher)
    assert {(one.poller, one.why) for one in output.sent} == {("p1", "rows"), ("p3", "rows")}
    assert sorted(many.queue.take()) == ["p1", "p3"]


def test_a_message_is_a_tick_and_the_poller_then_rests(shop: Make) -> None:
    many = shop(3)
    dispatcher, work = many.started(), many.work()
    many.rows("p2", "p2")
    many.round(dispatcher)
    for message in many.queue.messages:
        done = work.do(base64.b64decode(message.encode()))
        assert done is not None
        assert done[1].outcome == "delivered"
    assert [poller for poller, _ in many.seen] == ["p2", "p2"]
    many.queue.take()
    for _ in range(3):
        assert many.round(dispatcher).sent == []


def test_the_poller_due_for_longest_comes_first(shop: Make) -> None:
    many = shop(4, prober=Told("later"))
    many.others["p2"] = {"schedule": "1 0 12 * * *"}
    many.others["p0"] = {"schedule": "5 0 12 * * *"}
    dispatcher = many.started()
    for _ in range(2):
        many.round(dispatcher, after=4)
    many.prober = dispatcher._prober = Told("rows")
    assert [one.poller for one in many.round(dispatcher).sent][:2] == ["p2", "p0"]


def test_pollers_due_at_one_moment_come_in_no_fixed_order(shop: Make) -> None:
    orders = set()
    many = shop(8, prober=Told("rows"))
    for _ in range(8):
        orders.add(tuple(one.poller for one in many.started().round().sent))
        many.clock.passes(10)
        orders.add(tuple(one.poller for one in many.dispatcher().round().sent))
    assert len(orders - {()}) > 1


def test_a_message_is_not_sent_again_while_it_is_under_way(shop: Make) -> None:
    many = shop(2)
    dispatcher = many.started()
    many.rows("p0")
    assert [one.poller for one in many.round(dispatcher).sent] == ["p0"]
    for _ in range(28):
        output = many.round(dispatcher)
        assert (output.sent, output.waiting) == ([], 1)


def test_a_message_that_waits_is_sent_again_after_five_minutes(shop: Make) -> None:
    many = shop(2)
    dispatcher = many.started()
    many.rows("p0")
    many.round(dispatcher)
    assert many.round(dispatcher, after=280).sent == []
    assert [one.poller for one in many.round(dispatcher, after=20).sent] == ["p0"]


def test_a_message_that_was_taken_in_vain_is_sent_after_a_lease(shop: Make) -> None:
    """Its worker was killed before it had the lease, or the message was lost."""
    many = shop(2, lease_ttl="60s", heartbeat_interval="15s")
    dispatcher = many.started()
    many.rows("p0", "p1")
    many.round(dispatcher)
    many.queue.take()
    assert many.round(dispatcher, after=60).sent == []
    sent = many.round(dispatcher, after=10).sent
    assert sorted(one.poller for one in sent) == ["p0", "p1"]


def test_a_message_that_was_not_sent_is_sent_at_the_next_round(shop: Make) -> None:
    many = shop(2)
    dispatcher = many.started()
    many.rows("p0")
    many.queue.fails = True
    with pytest.raises(StoreUnavailable):
        many.round(dispatcher)
    many.queue.fails = False
    assert [one.poller for one in many.round(dispatcher, after=1).sent] == ["p0"]


def test_rows_that_went_end_the_wait_for_their_message(shop: Make) -> None:
    told = Told(p0="rows")
    many = shop(1, prober=told)
    dispatcher = many.started()
    told.answers["p0"] = "rows"
    assert len(many.round(dispatcher).sent) == 1
    told.answers["p0"] = "none"
    assert many.round(dispatcher).sent == []
    told.answers["p0"] = "rows"
    assert len(many.round(dispatcher).sent) == 1


def test_a_poller_without_a_document_gets_a_message_at_once(shop: Make) -> None:
    many = shop(2, schedule="0 0 2 * * *")
    output = many.dispatcher().round()
    assert {(one.poller, one.why) for one in output.sent} == {("p0", "no document"), ("p1", "no document")}


def test_a_document_that_changes_is_neither_read_nor_asked_about(shop: Make) -> None:
    many = shop(1)
    dispatcher = many.started()
    many.rows("p0")
    for _ in range(3):
        many.poller("p0").pause(by="ann", reason="a change")
        many.poller("p0").resume(by="ann")
        many.counted.requests.clear()
        output = many.round(dispatcher)
        assert (output.at_work, output.asked, output.sent) == (1, 0, [])
        assert many.counted.requests == {"LIST": 1}
    assert [one.poller for one in many.round(dispatcher).sent] == ["p0"]


def test_a_change_between_list_and_read_is_no_work(shop: Make) -> None:
    many = shop(1, schedule="0 0 2 * * *")
    many.started()
    many.rows("p0")
    many.clock.passes(14 * 3600)
    many.queue.lost = True
    read, late = many.store.read, many.dispatcher()

    def changes_first(name: str, **options: Any) -> Any:
        many.store.read = read  # type: ignore[method-assign]
        found = read(state_name("p0"))
        assert isinstance(found, Found)
        state = transitions.restamped(decode(found.body, location=name), many.clock.now)
        many.store.write(state_name("p0"), encode(state), if_tag=found.tag)
        return read(name, **options)

    many.store.read = changes_first  # type: ignore[method-assign]
    assert [one.poller for one in late.round().sent] == ["p0"]
    assert many.round(late).sent == [], "nobody took it yet"
    assert [one.poller for one in many.round(late, after=20).sent] == ["p0"], "its message was lost"


def test_paused_pollers_get_no_message(shop: Make) -> None:
    many = shop(2)
    dispatcher = many.started()
    many.rows("p0", "p1")
    many.poller("p0").pause(by="ann")
    many.round(dispatcher)
    output = many.round(dispatcher)
    assert output.resting == 1
    assert many.queue.take() == ["p1"]


def test_a_failed_call_is_repeated_when_its_time_has_come(shop: Make) -> None:
    many = shop(1, schedule="0 0 2 * * *", retry_backoff="60s", retry_backoff_max="60s")

    def fails(_: object) -> None:
        raise RuntimeError("no")

    dispatcher = many.started()
    many.rows("p0")
    assert many.poller("p0").tick(fails).outcome == "handler_failed"
    many.round(dispatcher)
    assert many.round(dispatcher).resting == 1
    assert [(one.poller, one.why) for one in many.round(dispatcher, after=60).sent] == [("p0", "waits")]


@pytest.mark.guarantee(
    "One worker at a time",
    "Nothing waits for the message of a killed worker: its rows are back within the lease's time and margin",
)
def test_a_killed_workers_rows_come_back_when_its_lease_ends(shop: Make) -> None:
    many = shop(1, schedule="0 0 2 * * *")
    dispatcher = many.started()
    many.rows("p0")
    many.clock.passes(14 * 3600)
    assert [one.poller for one in dispatcher.round().sent] == ["p0"]
    held = many.poller("p0")._runner.context.file
    copy = held.read()
    assert copy is not None
    held.write(
        copy,
        lambda state, now: transitions.acquire(state, owner_id="killed", ttl=10.0, now=now),
        deadline=many.clock.monotonic() + 5,
    )
    assert many.round(dispatcher, after=5).at_work == 1
    assert many.round(dispatcher, after=5).at_work == 1
    sent = [one.poller for _ in range(3) for one in many.round(dispatcher, after=5).sent]
    assert sent == ["p0"], "within ttl and margin, though its schedule comes once a day"


def test_a_wrong_poller_gets_its_message_and_others_go_on(shop: Make) -> None:
    many = shop(2)
    many.wrong["p0"] = "*/10 * * * * *"
    dispatcher = many.started()
    many.rows("p1")
    output = many.round(dispatcher)
    assert {(one.poller, one.why) for one in output.sent} == {("p0", "configuration"), ("p1", "rows")}


def test_a_document_of_another_source_is_left_to_its_worker(shop: Make) -> None:
    many = shop(1)
    dispatcher = many.started()
    found = many.store.read(state_name("p0"))
    body = found.body.replace(b"sha256:", b"sha256:0").replace(b"orders", b"refunds")  # type: ignore[union-attr]
    many.store.write(state_name("p0"), body, if_tag=found.tag)  # type: ignore[union-attr]
    many.round(dispatcher)
    assert [(one.poller, one.why) for one in many.round(dispatcher).sent] == [("p0", "unreadable")]


def test_a_poller_that_cannot_be_made_takes_no_other_along(shop: Make) -> None:
    many = shop(2)
    dispatcher = many.started()
    many.rows("p0", "p1")

    class Broken:
        @property
        def source(self) -> object:
            raise KeyError("driver")

    made, many.made["p0"] = many.made["p0"], Broken()  # type: ignore[assignment]
    assert {(one.poller, one.why) for one in many.round(dispatcher).sent} == {("p0", "configuration"), ("p1", "rows")}
    many.made["p0"] = made


def test_an_unreadable_document_is_left_to_its_worker(shop: Make) -> None:
    many = shop(2)
    dispatcher = many.started()
    found = many.store.read(state_name("p0"))
    many.store.write(state_name("p0"), b"{", if_tag=found.tag)  # type: ignore[union-attr]
    many.rows("p1")
    many.round(dispatcher)
    many.queue.take()
    output = many.round(dispatcher)
    assert [(one.poller, one.why) for one in output.sent] == [("p0", "unreadable")]


def test_an_unknown_bound_is_a_message_a_minute_at_most(shop: Make) -> None:
    many = shop(1, prober=Told("unknown"))
    dispatcher = many.started()
    sent = [len(many.round(dispatcher).sent) for _ in range(13)]
    assert sum(sent) <= 3
    assert sent[0] == 1 or sum(sent) == 2


def test_a_database_without_an_answer_is_not_asked_for_a_while(shop: Make) -> None:
    told = Told("none")
    many = shop(1, prober=told)
    dispatcher = many.started()
    told.default = "failed"
    assert [one.why for one in many.round(dispatcher).sent] == ["no answer"]
    told.asked.clear()
    told.default = "none"
    many.round(dispatcher)
    many.round(dispatcher)
    assert told.asked == []
    many.round(dispatcher)
    assert told.asked == ["p0"]


def test_rows_that_are_left_are_sent_for_though_the_queue_fails(shop: Make) -> None:
    """Else they would wait for the next night."""
    many = shop(1, schedule="0 0 2 * * *", batch_size=1, max_batches_per_tick=1)
    many.started()
    many.rows("p0", "p0")
    send, failures = many.queue.send, [True, True, False]

    def sends(message: Any) -> None:
        many.queue.fails = failures.pop(0)
        send(message)

    many.queue.send = sends  # type: ignore[method-assign]
    many.work().do(base64.b64decode(work_message("p0", many.clock.now)))
    assert many.queue.take() == ["p0"]


def test_poisoned_messages_are_logged_and_removed(shop: Make, caplog: pytest.LogCaptureFixture) -> None:
    many = shop(1)
    dispatcher = many.started()
    many.queue.poison = [work_message("p0", many.clock.now), "c2VjcmV0LXRleHQ=", "\x1b[31m"]
    output = many.round(dispatcher, after=61)
    assert output.poison == 3
    assert many.queue.poison == []
    assert "p0" in caplog.text
    assert "secret" not in caplog.text
    assert "\x1b" not in caplog.text
