"""The decision whether a tick may start: made from the document, before anything is written. The database is asked only
what a document without a description of its source leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from poller.errors import FieldDifference, FingerprintMismatch, SourceError, plain
from poller.lease.state_file import Copy
from poller.model.document import Control, State
from poller.model.fingerprint import differences
from poller.model.when import span
from poller.ports import InspectableSource, Source
from poller.tick.context import Context
from poller.tick.ordering import check_ordering_key
from poller.tick.result import Outcome


@dataclass(frozen=True, slots=True)
class TickRefusal:
    """Why a tick does not start; an outcome, not an error."""

    outcome: Outcome
    error: str


def refusal_of(context: Context, copy: Copy) -> TickRefusal | None:
    """Paused, halted, or held by another: in this order. Raises: FingerprintMismatch, ConfigError (the ordering key
    under which rows wait), SourceError (as `check_fingerprint`), before any of them."""
    state = copy.state
    check_fingerprint(context.name, state, context.source)
    check_ordering_key(context.name, state, context.source, context.options.ordering_key)
    if state.control.paused:
        return TickRefusal("paused", stopped_by("paused", state.control))
    if state.control.halted:
        return TickRefusal("halted", state.control.reason or "halted")
    if not copy.availability(context.file.timing, context.runtime.monotonic()).free:
        return TickRefusal("held_elsewhere", _held(copy, context))
    return None


def stopped_by(how: str, control: Control) -> str:
    """Who paused or cancelled it, and why, in one line."""
    by = f"{how} by {control.by}" if control.by else how
    return f"{by}: {control.reason}" if control.reason else by


def _held(copy: Copy, context: Context) -> str:
    lease = copy.state.lease
    if lease.owner_id is not None:
        return f"{lease.owner_id} holds the lease"
    left = copy.availability(context.file.timing, context.runtime.monotonic()).expires_in or 0.0
    return (
        "the lease was given back, but not by the write that made this version of the document (a copy put back by "
        f"hand, say), so its owner may be at work: no worker starts for another {span(left)}"
    )


def check_fingerprint(name: str, state: State, source: Source) -> None:
    """Nothing runs on a checkpoint that belongs to another source (sources.md, "Fingerprint").

    What the configuration leaves to the server counts as soon as the source has asked it. A document that describes no
    source can be judged by its fingerprint alone, for which the server is asked at once.
    Raises: FingerprintMismatch, with the difference field by field. Where what is configured does not exist or cannot
    be reached, a typo is the likely reason, and it says so first. SourceError, if the server had to be asked and
    gave no answer: then nothing is known.
    """
    configured = source.describe()
    if configured.belongs(state.source_fingerprint, state.source):
        return
    if not state.source and configured.left_open and isinstance(source, InspectableSource):
        configured = source.locate()
        if configured.belongs(state.source_fingerprint, state.source):
            return
    found = differences(state.source, configured)
    shown = "; ".join(map(str, found)) or "not described"
    missing = source.missing() if isinstance(source, InspectableSource) else None
    over = f"to start over: poller reset-to-beginning {name}, or poller reset-to-cursor {name}."
    if missing is None:
        message = f"The checkpoint of {name!r} belongs to another source ({shown})."
        next_step = f"If the cursor is right for the new source: poller rebind {name}; {over}"
    else:
        message = (
            f"The configured source of {name!r} cannot be read: {missing.message} Its checkpoint belongs to another"
            f" source ({shown})."
        )
        next_step = f"{put_back(found)} If the change is meant: make that source readable, then poller rebind {name};"
        next_step += f" {over}"
    raise FingerprintMismatch(
        message,
        stored=state.source_fingerprint,
        configured=configured.fingerprint(),
        differences=found,
        next_step=next_step,
    )


@contextmanager
def reads_of(name: str, state: State | None, source: Source) -> Iterator[None]:
    """While open, a source is read for a poller whose document is `state`, whose facts its pages rest on. Raises: as
    `check_fingerprint`, if the source is refused and is, as the server says by now, another one than the document's."""
    source.rests_on(None if state is None else state.facts)
    try:
        yield
    except SourceError:
        if state is not None and not source.describe().left_open:
            check_fingerprint(name, state, source)
        raise


def put_back(found: Sequence[FieldDifference]) -> str:
    """What to write in the configuration, so that it names the former source again."""
    fields = ", ".join(f"{one.field} = {plain(one.stored)} (it says {plain(one.configured)})" for one in found)
    return f"Put it back: {fields}." if fields else "Put the former source back."
