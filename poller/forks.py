"""What a child process does not share with its parent after `os.fork()`: connections, locks, leases (protocol 14).

Two processes that use one socket read each other's answers, and a lock that another thread of the parent held stays
locked in the child for ever. So every object with a connection, a lock or a lease registers here what resets it; Python
calls that in the child before anything else runs there. Nothing is sent on a connection of the parent, which keeps
using it.

This does NOT cover connections that a handler or the application made itself.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from types import MethodType
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

logger = logging.getLogger("poller")

_Works: TypeAlias = WeakKeyDictionary[Any, Callable[[Any], None]]

_before: _Works = WeakKeyDictionary()
_in_child: _Works = WeakKeyDictionary()
_kept: list[Any] = []
"""When Python ends, it empties this list too."""
_generation = 0


def before(work: MethodType | Callable[[], None]) -> None:
    """Have this method called in the parent right before each fork, as long as its object lives."""
    _add(_before, work)


def in_child(work: MethodType | Callable[[], None]) -> None:
    """Have this method called in each child right after the fork, on its only thread, as long as its object lives. It
    must not wait for anything, nor take a lock that was made before."""
    _add(_in_child, work)


def keep(*things: Any) -> None:
    """Never finalise these objects in this process, not even when Python ends: they are the parent's, and finalising
    would send on its connections."""
    for thing in things:
        if thing is not None:
            _kept.append(thing)
            with contextlib.suppress(ImportError, AttributeError):  # another Python than CPython
                _never_finalise(thing)


def generation() -> int:
    """The number of forks between this process and the one that imported this module; it differs between parent
    and child. For objects that are made once per process."""
    return _generation


def _add(works: _Works, work: MethodType | Callable[[], None]) -> None:
    method = cast(MethodType, work)
    works[method.__self__] = method.__func__


def _never_finalise(thing: Any) -> None:
    import ctypes  # the parent loaded it before the fork, so no import lock is needed here

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _run(works: _Works) -> None:
    for known in works.keyrefs():  # one step: other threads add to it meanwhile
        owner = known()
        work = None if owner is None else works.get(owner)
        try:
            if work is not None:
                work(owner)
        except Exception:  # the others must still run
            with contextlib.suppress(Exception):
                logger.exception("A part of this process could not be prepared for a fork.")


def _ran_before() -> None:
    with contextlib.suppress(ImportError):
        import ctypes  # noqa: F401 - see _never_finalise
    _run(_before)


def _ran_in_child() -> None:
    global _generation
    _generation += 1
    _run(_in_child)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_ran_before, after_in_child=_ran_in_child)
