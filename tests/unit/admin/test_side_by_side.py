"""Looks at many pollers: in order, few at one database, and none held up by the database of another."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from poller import once
from poller.admin.side_by_side import AT_ONCE, Inquiry, side_by_side
from poller.errors import SourceUnavailable


def look_at(database: str, ask: Callable[[], str], *, lives: Callable[[], bool] = lambda: True) -> Inquiry[str]:
    def asked(silent: SourceUnavailable | None) -> str:
        return ask() if silent is None else silent.message

    return Inquiry(database, ask=asked, unavailable=lambda text: text == "silent", lives=lives)


def test_what_is_found_keeps_the_order_of_the_looks() -> None:
    looks = [look_at(f"d{n % 3}", lambda n=n: str(n)) for n in range(50)]  # type: ignore[misc]
    assert side_by_side(looks, connections=4) == [str(n) for n in range(50)]


def test_no_more_looks_at_a_database_than_it_has_connections() -> None:
    lock, at_work, most = threading.Lock(), 0, 0

    def ask() -> str:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        threading.Event().wait(0.002)
        with lock:
            at_work -= 1
        return ""

    side_by_side([look_at("one", ask) for _ in range(30)], connections=3)
    assert 1 <= most <= 3


def test_databases_that_hang_hold_up_no_other() -> None:
    answer = threading.Event()

    def hang() -> str:
        assert answer.wait(60)
        return "late"

    def end() -> str:
        answer.set()
        return "last"

    hanging = [look_at(f"hangs{n}", hang) for n in range(3 * AT_ONCE)]
    prompt = [look_at("prompt", lambda: "prompt")] * 20 + [look_at("prompt", end)]
    found = side_by_side([*hanging, *prompt], connections=1, patience=0.0)
    assert found == ["late"] * 3 * AT_ONCE + ["prompt"] * 20 + ["last"]


def test_a_database_without_a_sign_of_life_is_asked_no_more() -> None:
    asked: list[int] = []

    def ask(number: int) -> str:
        asked.append(number)
        return "silent"

    looks = [look_at("hangs", lambda n=n: ask(n), lives=lambda: False) for n in range(9)]  # type: ignore[misc]
    found = side_by_side([*looks, look_at("other", lambda: "there")], connections=1, patience=0.0)
    assert asked == [0, 1]
    assert found[:2] == ["silent"] * 2
    assert set(found[2:9]) == {"The database was not asked: it gives no answer."}
    assert found[9] == "there"


def test_slow_tables_hide_no_other_of_their_database() -> None:
    looks = [look_at("slow", lambda n=n: "silent" if n < 5 else "there") for n in range(8)]  # type: ignore[misc]
    assert side_by_side(looks, connections=1, patience=0.0) == ["silent"] * 5 + ["there"] * 3


def test_what_a_look_raises_is_raised_when_all_have_ended() -> None:
    ended: list[str] = []

    def refuse() -> str:
        raise SourceUnavailable("first")

    def end() -> str:
        ended.append("")
        return ""

    with pytest.raises(SourceUnavailable, match="first"):
        side_by_side([look_at("one", refuse), *[look_at("one", end)] * 5], connections=2)
    assert len(ended) == 5


def test_a_question_of_many_looks_is_asked_once() -> None:
    asked: list[str] = []

    def question() -> str:
        asked.append("")
        return "answer"

    with once.command():
        looks = [look_at(f"d{n}", lambda: once.ask("key", question)) for n in range(40)]
        assert side_by_side(looks, connections=2) == ["answer"] * 40
    assert len(asked) == 1
    assert once.ask("key", question) == "answer"
    assert len(asked) == 2, "outside of a command nothing is kept"


def test_a_question_that_fails_is_asked_by_each() -> None:
    def question(name: str) -> str:
        raise SourceUnavailable(name)

    def ask(name: str) -> str:
        try:
            return once.ask("key", lambda: question(name))
        except SourceUnavailable as refused:
            return refused.message

    with once.command():
        looks = [look_at(f"d{n}", lambda n=n: ask(str(n))) for n in range(40)]  # type: ignore[misc]
        assert side_by_side(looks, connections=2) == [str(n) for n in range(40)]


def test_an_answer_that_is_not_for_all_is_not_kept() -> None:
    with once.command():
        assert once.ask("key", lambda: 1, keep=lambda _: False) == 1
        assert once.ask("key", lambda: 2) == 2
        assert once.ask("key", lambda: 3) == 2
        once.forget()
        assert once.ask("key", lambda: 3) == 3
