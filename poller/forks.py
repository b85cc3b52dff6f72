"""What a child process does not share with its parent after `os.fork()`: connections, locks, leases (protocol 14).

A socket that two processes use gives each of them the other's answers, and a lock that another thread of the parent
held stays locked in the child for ever. So whatever holds a connection, a lock or a lease names here, once, what makes
it begin anew; Python calls that in the child before anything else runs there. Nothing says goodbye on a connection of
the parent: it goes on using it.

What this does NOT cover: connections that a handler or the application made itself.
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
"""Python empties this list too when it ends."""
_generation = 0


def before(work: MethodType | Callable[[], None]) -> None:
    """Have this method called in the parent right before each fork, as long as its object lives."""
    _add(_before, work)


def in_child(work: MethodType | Callable[[], None]) -> None:
    """Have this method called in each child right after the fork, on its only thread, as long as its object lives. It
    must not wait for anything, and takes no lock that was made before."""
    _add(_in_child, work)


def keep(*things: Any) -> None:
    """Never finalise these here, not at the end of Python either: they are the parent's, and their last words would go
    out on its connections."""
    for thing in things:
        if thing is not None:
            _kept.append(thing)
            with contextlib.suppress(ImportError, AttributeError):  # another Python than CPython
                _never_finalise(thing)


def generation() -> int:
    """How many forks lie between this process and the one that imported this module: another number, another process.
    For what is made once per process."""
    return _generation


def _add(works: _Works, work: MethodType | Callable[[], None]) -> None:
    method = cast(MethodType, work)
    works[method.__self__] = method.__func__


def _never_finalise(thing: Any) -> None:
    import ctypes  # loaded by the parent before it forked: here another thread of its may have been about to

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _run(works: _Works) -> None:
    for known in works.keyrefs():  # one step: other threads add to it meanwhile
        owner = known()
        work = None if owner is None else works.get(owner)
        try:
            if work is not None:
                work(owner)
        except Exception:  # the others must begin anew all the same
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


if hasattr(os, "register_at_fork"):  # not on Windows, which knows no fork
    os.register_at_fork(before=_ran_before, after_in_child=_ran_in_child)
