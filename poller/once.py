"""Questions that a command asks once, however many of its pollers ask them.

Whether a container may be listed, which privileges a user has, how a table looks: `status` and `check` of many pollers
need the same answers many times.

    with once.command():
        ...                        # on this thread, and on those that run a copy of its context
        once.ask(key, question)

Outside of `command` nothing is kept: a tick asks again. A question that fails is not kept either: each of callers who
ask it says its own error. This is NOT for what must be true at the moment of a read, such as the bound.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

_T = TypeVar("_T")
_NOTHING = object()


class _Answers:
    """Of one command. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Hashable, Any] = {}
        self._asked: dict[Hashable, threading.Event] = {}

    def ask(self, key: Hashable, question: Callable[[], _T], keep: Callable[[_T], bool]) -> _T:
        with self._lock:
            if key in self._found:
                answer: _T = self._found[key]
                return answer
            flight = self._asked.get(key)
            first = flight is None
            if flight is None:
                flight = self._asked[key] = threading.Event()
        if not first:
            flight.wait()
            with self._lock:
                answer = self._found.get(key, _NOTHING)
            return question() if answer is _NOTHING else answer  # not one after the other: the first may have hung
        try:
            answer = question()
            if keep(answer):
                with self._lock:
                    self._found[key] = answer
            return answer
        finally:
            with self._lock:
                self._asked.pop(key, None)
            flight.set()

    def forget(self) -> None:
        with self._lock:
            self._found.clear()


_COMMAND: ContextVar[_Answers | None] = ContextVar("poller_command", default=None)


@contextmanager
def command() -> Iterator[None]:
    """What is asked from here on is asked once, until the outermost `command` ends."""
    if _COMMAND.get() is not None:
        yield
        return
    before = _COMMAND.set(_Answers())
    try:
        yield
    finally:
        _COMMAND.reset(before)


def ask(key: Hashable, question: Callable[[], _T], *, keep: Callable[[_T], bool] = lambda _: True) -> _T:
    """The answer to a question, which within a `command` is asked once.

    Args:
        key: equal for questions that have one answer. keep: whether an answer is that of the others too.
    Raises: what the question raises.
    """
    answers = _COMMAND.get()
    return question() if answers is None else answers.ask(key, question, keep)


def forget() -> None:
    """Something of what was asked has changed: ask all of it again."""
    answers = _COMMAND.get()
    if answers is not None:
        answers.forget()
