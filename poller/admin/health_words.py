"""What people read about a poller's health: sentences without rows, keys, cursors, URLs or the text of errors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from poller.admin.counts import rows
from poller.admin.health import PollerHealth
from poller.errors import (
    ConfigError,
    FingerprintMismatch,
    PollerError,
    SourceUnavailable,
    StateCorrupt,
    StoreDenied,
    StoreError,
)
from poller.model.durations import format_duration
from poller.model.escape import shown
from poller.model.health import Rule, Verdict
from poller.model.redact import first_line
from poller.model.when import moment, span

Text = tuple[str, str]
"""A sentence, and what to do."""


def waited(seconds: float) -> str:
    """That rows wait, nobody delivers them, and since when; `poller status` says it in these words too."""
    return f"rows have waited {span(seconds)} and nothing was committed"


def what_is_wrong(error: Exception, name: str) -> Text:
    """An error as a sentence without its text, which may quote a key or a place, and what to do."""
    check = f"poller check {name}"
    if isinstance(error, FingerprintMismatch):
        return "Its checkpoint belongs to another source than the configured one.", f"poller status {name} says how"
    if isinstance(error, ConfigError):
        # Of a configuration: it names keys and settings, never their values.
        return f"It is not configured correctly: {first_line(error.message)}", check
    if isinstance(error, StateCorrupt):
        return "Its state document cannot be read, or is missing.", f"poller status {name} says why"
    if isinstance(error, StoreDenied):
        return "The state store refuses access.", check
    if isinstance(error, StoreError):
        return "The state store cannot be reached.", check
    if isinstance(error, SourceUnavailable):
        return "Its database cannot be reached, or did not answer in time.", check
    if isinstance(error, PollerError):
        return "Its table cannot be read.", f"poller status {name} says why"
    return f"It could not be looked at ({type(error).__name__}), which is a fault in poller.", check


def reason(verdict: Verdict, found: PollerHealth, rule: Rule) -> Text:
    """Why a poller is unhealthy, for the kinds that are no error."""
    name, count = found.name, _count(found)
    texts: dict[str, Callable[[], Text]] = {
        "halted": lambda: (
            "It is halted: a row failed too often.",
            f"once that is fixed: poller resume {name}",
        ),
        "full": lambda: (
            f"{_full(found)} no more may: the next that fails blocks it.",
            f"poller quarantine list {name}",
        ),
        "below_checkpoint": lambda: (
            "The database has not come as far as the checkpoint, so no row is read.",
            f"poller status {name} says where to go on",
        ),
        "never_ran": lambda: (
            f"Its first tick has been due for {span(verdict.late)}, and nobody has made it"
            + (f"; {count} wait." if found.pending else "."),
            _run(name),
        ),
        "late": lambda: (f"{_capital(waited(verdict.stalled or 0.0))} ({count}).", _run(name)),
        "max_lag": lambda: (
            f"{_capital(count)} wait, the oldest {span(verdict.late)} late; max_lag is {_duration(rule.max_lag)}.",
            f"poller status {name}",
        ),
        "not_retried": lambda: (
            f"{rows(found.aside_due or 0)} set aside could be tried again for {span(verdict.late)}, and nobody did.",
            _run(name),
        ),
        "bound": lambda: (
            f"{_above(found, verdict)}; max_bound_age is {_duration(rule.max_bound_age)}.",
            "end that transaction",
        ),
    }
    return texts[verdict.kind]()


def waiting_for(verdict: Verdict, found: PollerHealth, *, paused_by: str | None, failures: int) -> str | None:
    """What a poller waits for; None where it waits for nothing."""
    count = _count(found)
    if verdict.kind == "paused":
        return f"a person: it was paused by {shown(paused_by)}" if paused_by else "a person: it is paused"
    if found.backing_off_until is not None:
        calls = f", after {failures:,} failed call{'s' * (failures != 1)}" if failures else ", after a failed call"
        return f"its next try at {moment(found.backing_off_until)}{calls}"
    if verdict.kind in {"above_bound", "bound"}:
        one = "s" * (_waiting(found) == 1)
        held = found.bound is not None and found.bound.held_by is not None
        return f"{_holder(found)}: {count} wait{one} above {'the bound' if held else 'it'}"
    if verdict.kind == "working":
        return f"its handler: {shown(found.owner_id or 'a worker')} is at work"
    if verdict.due is not None:
        return f"its schedule: {count} wait{'s' * (_waiting(found) == 1)} until {moment(verdict.due)}"
    if verdict.kind == "due":
        return f"its next tick: {count} wait{'s' * (_waiting(found) == 1)}"
    return "its first tick" if found.exists is False and verdict.kind == "idle" else None


def _waiting(found: PollerHealth) -> int | None:
    """Rows of the table; where none waits, those set aside that may be tried now."""
    return None if found.pending is None else found.pending or found.aside_due or 0


def _count(found: PollerHealth) -> str:
    count = _waiting(found)
    return "rows" if count is None else rows(count, found.pending_capped)


def _holder(found: PollerHealth) -> str:
    by = None if found.bound is None else found.bound.held_by
    return shown(by) if by else "the bound"


def _full(found: PollerHealth) -> str:
    return f"{rows((found.aside or 0) + (found.quarantined or 0))} that failed wait, and"


def _above(found: PollerHealth, verdict: Verdict) -> str:
    return f"{_capital(_count(found))} have waited {span(verdict.held)} for {_holder(found)}"


def _run(name: str) -> str:
    return f"find out why no worker ticks; by hand: poller run {name} --once"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _duration(seconds: float | None) -> str:
    return format_duration(timedelta(seconds=seconds or 0.0))
