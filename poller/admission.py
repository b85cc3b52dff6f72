"""Whether a tick may start: decided from the document alone, before the database is asked and anything is written."""

from __future__ import annotations

from dataclasses import dataclass

from poller.context import Context
from poller.errors import FingerprintMismatch
from poller.model.fingerprint import UNKNOWN_FINGERPRINTS, SourceDescription, differences
from poller.outcome import Outcome
from poller.statefile import Copy


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a tick does not start; an outcome, not an error."""

    outcome: Outcome
    error: str


def refusal_of(context: Context, copy: Copy) -> Refusal | None:
    """Paused, halted, or held by another: in this order. Raises: FingerprintMismatch, before any of them."""
    state = copy.state
    guard(context.name, copy, context.source.describe())
    if state.control.paused:
        by = f"paused by {state.control.by}" if state.control.by else "paused"
        return Refusal("paused", f"{by}: {state.control.reason}" if state.control.reason else by)
    if state.control.halted:
        return Refusal("halted", state.control.reason or "halted")
    if not copy.availability(context.file.timing, context.runtime.monotonic()).free:
        return Refusal("held_elsewhere", _held(copy, context))
    return None


def _held(copy: Copy, context: Context) -> str:
    lease = copy.state.lease
    if lease.owner_id is not None:
        return f"{lease.owner_id} holds the lease"
    left = copy.availability(context.file.timing, context.runtime.monotonic()).expires_in or 0.0
    return (
        "the lease was given back, but not by the write that made this version of the document (a copy put back by "
        f"hand, say), so its owner may be at work: nobody starts for another {left:.0f} s"
    )


def guard(name: str, copy: Copy, configured: SourceDescription) -> None:
    """Nothing runs on a checkpoint that belongs to another source (sources.md, "Fingerprint").

    Raises: FingerprintMismatch, with the difference field by field.
    """
    stored = copy.state.source_fingerprint
    if stored in UNKNOWN_FINGERPRINTS or stored == configured.fingerprint():
        return
    found = differences(copy.state.source, configured)
    shown = "; ".join(map(str, found)) or "not described"
    raise FingerprintMismatch(
        f"The checkpoint of {name!r} belongs to another source ({shown}).",
        stored=stored,
        configured=configured.fingerprint(),
        differences=found,
        next_step=f"If the cursor is right for the new source: poller rebind {name}; to begin anew: "
        f"poller reset-to-beginning {name}, or poller reset-to-cursor {name}.",
    )


def read_unless_deleted(context: Context) -> Copy | None:
    """None where this poller has never worked. A document that is gone is not begun anew (protocol 12): somebody
    deleted it, or a lifecycle rule did.

    It is looked for once more behind the traces: both may have been made since the first look.
    Raises: StateCorrupt, StoreError.
    """
    file = context.file
    if not file.seen_before and next(file.traces(), None) is None:
        return None
    copy = file.read()
    if copy is None:
        raise file.deleted()
    return copy
