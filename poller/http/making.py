"""A change, made as the console makes it, and what is said of it: no row, key value, cursor or address.

The library's errors name places and quote what databases say, for operators who may see that. A page's
user gets the same facts in words of this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from poller.admin.change_result import ChangeOutput
from poller.admin.changes import Change, Changes
from poller.admin.pausing import Pause, Resume
from poller.admin.quarantine.choice import Choice
from poller.admin.quarantine.discard import Discard
from poller.admin.quarantine.replay import NotHandedOver, replay
from poller.admin.refusals import Refused, WrongArgument
from poller.admin.request import ChangeOptions
from poller.app import App, Named
from poller.errors import (
    CommitError,
    ConfigError,
    LeaseHeld,
    LeaseLost,
    PollerError,
    StoreDenied,
    StoreUnavailable,
    WriteConflict,
)
from poller.http.ticks import TROUBLES
from poller.tick.errands import Stopped

CALLER = "{typed} (dashboard{place})"
"""Who made a change, in the audit trail: the name that was typed, and from which address."""
Kind: TypeAlias = Literal["replay", "discard", "pause", "resume"]


@dataclass(frozen=True, slots=True)
class WantedChange:
    """A change that may be made.

    Attributes:
        poller: its name, a configured one. id: of the row, for a replay and a discard. by: for the audit trail.
    """

    change: Kind
    poller: str
    id: str | None
    by: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class MadeChange:
    """What came of it. `status`: of the answer, 200 where it is as it was wanted. `changed`: something was written."""

    status: int
    message: str
    changed: bool = False


def make(app: App, wanted: WantedChange) -> MadeChange:
    """Make a change, and say what came of it. Raises: what is no PollerError."""
    if wanted.poller not in app.config.pollers:
        return refused(wanted, ConfigError("it cannot be made"))
    try:
        return _MAKERS[wanted.change](app, wanted)
    except PollerError as error:
        return refused(wanted, error)


def _pause(app: App, wanted: WantedChange) -> MadeChange:
    changed = _edited(app, wanted, Pause()).changed
    after = "is paused: no new batch starts, and one in hand is finished." if changed else "is paused already."
    return MadeChange(200, f"{wanted.poller} {after}", changed)


def _resume(app: App, wanted: WantedChange) -> MadeChange:
    changed = _edited(app, wanted, Resume()).changed
    after = "works again with its next tick." if changed else "is neither paused nor halted."
    return MadeChange(200, f"{wanted.poller} {after}", changed)


def _edited(app: App, wanted: WantedChange, change: Change) -> ChangeOutput:
    """Without the source: its database may be what is down."""
    poller = app.without_source(Named(wanted.poller, wanted.poller))
    return Changes(poller, _request(app, wanted)).make(change)


def _discard(app: App, wanted: WantedChange) -> MadeChange:
    output = Changes(app.poller(wanted.poller), _request(app, wanted)).make(Discard(_row(wanted)))
    if output.changed:
        return MadeChange(200, f"The row {wanted.id} was given up: it is never delivered.", changed=True)
    return MadeChange(200, f"The row {wanted.id} waits no longer: nothing was to be given up.")


def _replay(app: App, wanted: WantedChange) -> MadeChange:
    request = _request(app, wanted)
    output = replay(app.poller(wanted.poller), _row(wanted), "recorded", request)
    if output.replayed:
        return MadeChange(200, f"The handler took the row {wanted.id}: it waits no longer.", changed=True)
    if any(row.outcome == "failed" for row in output.rows):
        show = request.command("quarantine", "show", wanted.poller, "--id", str(wanted.id))
        return MadeChange(409, f"The handler failed on the row {wanted.id}, which still waits. How it failed: {show}")
    return MadeChange(409, f"The row {wanted.id} was not handed over, and still waits. Try again.")


_MAKERS: Mapping[Kind, Callable[[App, WantedChange], MadeChange]] = {
    "pause": _pause,
    "resume": _resume,
    "discard": _discard,
    "replay": _replay,
}


def _request(app: App, wanted: WantedChange) -> ChangeOptions:
    return ChangeOptions(by=wanted.by, reason=wanted.reason, file=str(app.path))


def _row(wanted: WantedChange) -> Choice:
    return Choice(ids=[str(wanted.id)])


# --- what is said of the library's errors


def refused(wanted: WantedChange, error: PollerError) -> MadeChange:
    """A refusal or an error of the library in a sentence of this page's."""
    name = wanted.poller
    if isinstance(error, NotHandedOver):
        return MadeChange(409, f"The row {wanted.id} was not handed over. {error.why}")
    if isinstance(error, (Refused, WrongArgument)):  # it quotes what the caller gave, and counts
        return MadeChange(409 if isinstance(error, Refused) else 422, str(error))
    if isinstance(error, LeaseHeld):
        left = error.expires_in_seconds
        until = "" if left is None else f" for up to {math.ceil(left)} s more"
        return MadeChange(
            409, f"A worker holds the lease of {name}{until}. Nothing was changed: try again, or pause it first."
        )
    for kind, status, words in _WORDS:
        if isinstance(error, kind):
            return MadeChange(status, words.format(name=name))
    return MadeChange(409, f"It was refused ({type(error).__name__}). What is wrong with {name}: poller check {name}")


_WORDS: tuple[tuple[type[PollerError], int, str], ...] = (
    (Stopped, 409, "{name} is paused or halted: no row is handed over before a resume."),
    (WriteConflict, 409, "A worker changed the state of {name} each time this tried to. Try again."),
    (StoreDenied, 503, "The state store refuses this process: changes need the right to write."),
    (StoreUnavailable, 503, "The state store did not answer. Whether the change was made is not known: look again."),
    (LeaseLost, 503, "The lease of {name} was lost meanwhile. Whether the row still waits: look again."),
    (CommitError, 503, "The state store did not answer. Whether the row still waits: look again."),
    *TROUBLES,
)
"""The first that fits counts."""
