"""Whose turn it is, in simulated time: nobody waits long for anybody, and a server that hangs leaves the others be."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from poller.worker.turns import GRACE, OVERTIME, Turns
from tests.support.cases import each
from tests.unit.worker.office import Office


def spread(pollers: int, servers: int) -> dict[str, str]:
    return {f"p{number}": f"server-{number % servers}" for number in range(pollers)}


def turns(
    slots: int,
    *members: str,
    seconds: float = 30.0,
    longest: float = float("inf"),
    in_handler: Callable[[str], float] = lambda _: 0.0,
) -> Turns[str]:
    """Pollers that are due at 0, each named for its server and a number: `a1`, `b7`."""
    made = Turns[str](slots, draw=Random(7).random, slice=seconds, in_handler=in_handler)
    for name in members:
        made.join(name, name[0], 0.0, longest=longest)
    return made


def started(made: Turns[str], now: float) -> list[str]:
    found = []
    while (name := made.start(now)) is not None:
        found.append(name)
    return found


# --- many


@pytest.mark.guarantee(
    "One worker at a time",
    "Of many pollers in one process none keeps the others waiting: not one whose source or handler hangs, nor one "
    "with a day's work",
)
def test_eight_hung_sources_delay_none_of_a_hundred() -> None:
    """Their ticks take 30 s and fail; the others' take 10 ms each, on two servers that work."""
    hung = [f"p{number}" for number in range(8)]
    servers = spread(100, 2) | dict.fromkeys(hung, "hung")
    office = Office(8, servers, lambda name: 30.0 if name in hung else 0.01, fails=frozenset(hung))
    office.run(600)
    others = [name for name in servers if name not in hung]
    assert office.longest_wait(*others) < 2
    assert sum(office.ticks[name] for name in others) / 10 > 550, "of 552 a minute"
    assert office.most_at_once["hung"] == 4
    assert all(office.ticks[name] for name in hung), "they are tried all the same"


def test_of_a_thousand_busy_ones_none_waits_three_minutes() -> None:
    office = Office(40, spread(1000, 3), lambda _: 1.0, rest=0.0)
    office.run(600)
    assert office.longest_wait() < 60
    assert min(office.ticks.values()) >= 20


def test_a_thousand_busy_ones_of_one_server_share_half() -> None:
    office = Office(40, spread(1000, 1), lambda _: 1.0, rest=0.0)
    office.run(600)
    assert office.most == 20
    assert office.longest_wait() < 180


def test_a_first_load_of_hours_keeps_nobody_waiting() -> None:
    """Six pollers have an hour's work each, for three slots of their server: the others wait for two slices at most."""
    long = [f"p{number}" for number in range(6)]
    servers = spread(60, 1)
    office = Office(6, servers, lambda name: 3600.0 if name in long else 0.01)
    office.run(3600)
    small = [name for name in servers if name not in long]
    assert office.longest_wait(*small) < 61
    assert office.longest_wait(*long) < 61
    assert min(office.ticks[name] for name in small) > 50


def test_those_due_at_one_moment_have_no_fixed_order() -> None:
    office = Office(4, spread(30, 2), lambda _: 0.05)
    office.run(100)
    rounds = [tuple(office.order[first : first + 30]) for first in range(0, 300, 30)]
    assert len(set(rounds)) == len(rounds) == 10
    assert all(len(set(one)) == 30 for one in rounds), "everybody once in each round"


# --- who


def test_the_longest_overdue_goes_first() -> None:
    made = turns(2)
    for number, due in enumerate([30.0, 10.0, 20.0, 40.0]):
        made.join(f"p{number}", f"server-{number}", due)
    assert started(made, 50) == ["p1", "p2"]
    made.put_back("p1", 45)
    assert started(made, 50) == ["p0"]


def test_nobody_goes_before_it_is_due() -> None:
    made = turns(2)
    made.join("a1", "a", 10.0)
    assert started(made, 9.99) == []
    assert made.next_moment(9.99) == 10
    assert started(made, 10) == ["a1"]


@pytest.mark.parametrize(("slots", "most"), [(1, 1), (2, 1), (3, 1), (8, 4)])
def test_one_server_gets_half_of_the_slots(slots: int, most: int) -> None:
    made = turns(slots, *(f"a{number}" for number in range(9)))
    assert len(started(made, 0)) == most
    made.join("b1", "b", 0.0)
    assert started(made, 0) == (["b1"] if slots > 1 else [])


def test_few_pollers_have_a_slot_each_on_one_server() -> None:
    made = turns(4, "a1", "a2", "a3", "a4")
    assert len(started(made, 0)) == 4


def test_the_rule_ends_when_few_are_left() -> None:
    made = turns(4, "a1", "a2", "a3", "a4", "a5")
    first = started(made, 0)
    assert len(first) == 2
    made.leave(first[0])
    assert len(started(made, 0)) == 3


def test_a_turn_that_ends_makes_room_on_its_server() -> None:
    made = turns(4, "a1", "a2", "a3", "a4", "b1")
    running = started(made, 0)
    (done, other) = (name for name in running if name[0] == "a")
    made.put_back(done, 100)
    (next_one,) = started(made, 1)
    assert next_one[0] == "a"
    assert next_one not in (done, other)


# --- slices


def test_a_tick_yields_after_its_slice_while_another_waits() -> None:
    made = turns(1, "a1", "b1")
    (first,) = started(made, 0)
    assert made.next_moment(0) == 30
    assert made.to_yield(29.9) == []
    assert made.to_yield(30) == [first]
    assert made.to_yield(31) == [], "it is asked once"
    made.put_back(first, 31)
    (second,) = started(made, 31)
    assert second != first


def test_without_others_waiting_a_tick_goes_on() -> None:
    made = turns(2, "a1", "b1")
    started(made, 0)
    assert made.to_yield(3600) == []
    made.join("c1", "c", 7200.0)
    assert made.to_yield(3600) == [], "one that is not due waits for nobody"
    assert len(made.to_yield(7200)) == 1


def test_as_many_are_asked_as_wait() -> None:
    made = turns(4, "a1", "b1", "c1", "d1")
    assert len(started(made, 0)) == 4
    made.join("e1", "e", 40.0)
    assert len(made.to_yield(40)) == 1
    made.join("e2", "e", 41.0)
    assert len(made.to_yield(41)) == 1


def test_only_who_could_be_replaced_is_asked() -> None:
    """One more of a server that has its half waits for a tick of that server; the others go on."""
    made = turns(4, "a1", "a2", "a3", "b1")
    made.join("c1", "c", 1000.0)
    assert len(started(made, 0)) == 3
    (asked,) = made.to_yield(30)
    assert asked[0] == "a"
    assert made.let_go(30 + GRACE) == []
    assert [name[0] for name in started(made, 30 + GRACE)] == ["a"]
    assert made.next_moment(30 + GRACE) == 1000, "the others are asked no more, so nothing comes before"


# --- those that wait in their handlers, or hang


def test_who_waits_in_its_handler_leaves_its_server_to_others() -> None:
    """Once its call has lasted for a moment; a call that is quicker changes nothing."""
    calls = {"a1": 0.0, "a2": 0.0}
    made = turns(4, *(f"a{number}" for number in range(1, 8)), in_handler=lambda name: calls.get(name, 0.0))
    first = started(made, 0)
    assert len(first) == 2
    calls = {first[0]: GRACE / 2}
    assert started(made, 0.5) == []
    assert made.next_moment(0.5) == 0.5 + GRACE, "it is looked at again"
    calls = {first[0]: GRACE}
    assert len(started(made, 1)) == 1
    calls = {}
    assert started(made, 2) == [], "it is back, and one more than the half is at work"
    made.put_back(first[0], 100)
    assert started(made, 2) == []
    made.put_back(first[1], 100)
    assert len(started(made, 2)) == 1


def test_who_waits_in_its_handler_takes_one_of_all_slots() -> None:
    made = turns(4, *(f"a{number}" for number in range(9)), in_handler=lambda _: 5.0)
    assert len(started(made, 0)) == 4


def test_who_does_not_end_after_its_slice_keeps_nobody_waiting() -> None:
    made = turns(2, "a1", "b1", "c1", "d1", in_handler=lambda _: 25.0)
    hung = started(made, 0)
    assert sorted(made.to_yield(30)) == sorted(hung)
    assert (made.let_go(30.5), started(made, 30.5)) == ([], [])
    assert made.next_moment(30.5) == 30 + GRACE
    assert (made.let_go(30 + GRACE), len(started(made, 30 + GRACE))) == ([], 2)
    assert made.running == 4
    for name in hung:
        made.put_back(name, 32)
    assert started(made, 32) == [], "its slot is not given back twice"


def test_three_hung_handlers_delay_nobody_of_one_server() -> None:
    """Twenty pollers on two processors: six slots, three of them for the server."""
    hung = ["p0", "p1", "p2"]
    office = Office(6, spread(20, 1), lambda name: 1e9 if name in hung else 0.1, handlers=frozenset(hung))
    office.run(600)
    others = [name for name in office.servers if name not in hung]
    assert office.longest_wait(*others) < 3
    assert min(office.ticks[name] for name in others) >= 59


@pytest.mark.parametrize("handlers", [True, False])
def test_however_many_hang_the_ticks_at_once_are_bounded(handlers: bool) -> None:
    servers = spread(300, 2)
    office = Office(6, servers, lambda _: 1e9, handlers=frozenset(servers) if handlers else frozenset())
    office.run(3000)
    assert office.most == 6 * (1 + OVERTIME)


def test_a_server_that_hangs_leaves_overtime_to_others() -> None:
    """Its queries last for longer than a slice; then handlers hang that read from another server."""
    servers = spread(200, 2)
    away = [name for name in servers if servers[name] == "server-0"]
    hung = [f"p{number}" for number in (1, 3, 5, 7, 9, 11)]
    office = Office(6, servers, lambda name: 1e9 if name in (*away, *hung) else 0.01, handlers=frozenset(hung))
    office.run(600)
    assert min(office.ticks[name] for name in servers if name not in (*away, *hung)) > 50


def test_a_tick_that_hangs_keeps_its_slot_from_nobody() -> None:
    made = turns(1, "a1", "b1", longest=600)
    (hung,) = started(made, 0)
    assert made.let_go(599) == []
    assert made.let_go(600) == [hung]
    (other,) = started(made, 600)
    assert [name for name, _ in made.overdue(600)] == [hung], "another process may look at it"
    made.put_back(hung, 700)
    made.put_back(other, 700)
    assert len(started(made, 700)) == 1, "its slot is not given back twice"


def test_what_waits_is_overdue_since_it_was_due() -> None:
    made = turns(1, "a1", "b1")
    (first,) = started(made, 0)
    ((waits, since),) = made.overdue(25)
    assert (waits, since) == ("b1" if first == "a1" else "a1", 0)


# --- others that look


def test_who_is_postponed_waits_for_no_turn() -> None:
    later = {"a1": 20.0}
    made = Turns[str](1, draw=Random(7).random, postponed=lambda name: later.pop(name, None))
    made.join("a1", "a", 10.0)
    assert (started(made, 10), made.waiting) == ([], 0)
    assert started(made, 20) == ["a1"]


def test_a_clock_that_is_set_makes_new_moments() -> None:
    made = turns(1)
    made.join("a1", "a", 5000.0)
    made.clock_was_set(0, lambda _: 10.0)
    assert started(made, 10) == ["a1"]


# --- any order


@each("seed", range(60))
def test_any_order_of_events_keeps_the_rules(seed: int) -> None:
    """Ticks of any length, pollers that leave, clocks that are set back, ticks that hang: never too many at once, and
    whoever is due and may have a turn has one."""
    chance = Random(seed)
    slots, now = chance.randint(1, 8), 0.0
    made = Turns[str](slots, draw=chance.random, slice=20)
    due = {f"{'abc'[number % chance.randint(1, 3)]}{number}": 0.0 for number in range(chance.randint(1, 20))}
    running: dict[str, float] = {}
    hung: set[str] = set()  # or at work for longer than their slice
    for name in due:
        made.join(name, name[0], 0.0, longest=100)
    for _ in range(300):
        what = chance.random()
        if what < 0.5 and running:
            name = chance.choice(sorted(running))
            del running[name]
            hung.discard(name)
            if chance.random() < 0.03:
                made.leave(name)
                del due[name]
            else:
                due[name] = now + chance.choice([0, 1, 10])
                made.put_back(name, due[name])
        elif what < 0.52:
            former, now = now, max(0.0, now - 30)
            due = {name: min(at, now) if at <= former else at for name, at in due.items()}  # who waits goes on waiting
            made.clock_was_set(now, due.__getitem__)
            running = {name: min(began, now) for name, began in running.items()}
        else:
            now += chance.expovariate(0.3)
        gone = made.let_go(now)
        assert all(now - running[name] >= 100 for name in gone)
        hung = set(made.overtime)
        assert set(gone) <= hung
        for name in started(made, now):
            assert due[name] <= now
            running[name] = now
        for name in made.to_yield(now):
            assert now - running[name] >= 20
        counted = [name for name in running if name not in hung]
        half = slots if len(due) <= slots else max(1, slots // 2)
        at_once = {server: sum(name[0] == server for name in counted) for server in "abc"}
        waits = {name for name in due if name not in running and due[name] <= now}
        assert len(counted) <= slots
        assert len(due) <= slots or max(at_once.values()) <= half
        assert made.waiting == len(waits)
        assert len(counted) == slots or all(at_once[name[0]] >= half for name in waits), "a turn for who may have one"
        assert made.running == len(running)
