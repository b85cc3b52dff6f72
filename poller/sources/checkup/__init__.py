"""The doctor's SQL side: everything about a source that can be told before it goes wrong, and what fixes it.

Reads only. One check that fails is a finding and keeps none of the others from being made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from poller import tls
from poller.errors import ConfigError, SourceError, SourceUnavailable
from poller.model.cursor import Cursor
from poller.model.finding import Finding, error, warn
from poller.sources.checkup import moments, order, servers, table, updates
from poller.sources.checkup.row_security import row_security
from poller.sources.checkup.selective import selective
from poller.sources.checkup.subject import Subject
from poller.sources.reading.session import Session

Guard: TypeAlias = Callable[[Callable[[], list[Finding]]], list[Finding]]
Check: TypeAlias = Callable[[Subject], list[Finding]]

_CHECKS: tuple[tuple[str, Check], ...] = (
    ("database", servers.privileges),
    (tls.CHECK, servers.transport),
    ("relation", servers.relation),
    ("row_security", row_security),
    ("key", table.key),
    ("columns", table.columns),
)
_ON_ROWS: tuple[tuple[str, Check], ...] = (
    ("nulls", table.nulls),
    ("index", table.index),
    ("plan", order.plan),
    ("filter", selective),
    ("relation", servers.behind),
    ("relation", servers.limits),
    ("forms", order.forms),
    ("round_trip", order.round_trip),
    ("time_zone", moments.time_zone),
    ("updates", updates.updates),
    ("clock", moments.clock),
    ("future", moments.future),
    ("prepared", servers.prepared),
    ("bound", moments.bound),
)


@dataclass(frozen=True, slots=True)
class Checkup:
    """What was found, in the order of the checks.

    Attributes:
        offset_seconds: how far the database's clock is ahead of this machine's; None where it was not asked.
    """

    findings: list[Finding]
    offset_seconds: float | None = None


def examine(session: Session, guard: Guard, after: Cursor | None, utcnow: Callable[[], datetime]) -> Checkup:
    """All checks of one source.

    Args:
        guard: does work and translates the driver's errors into ours. after: where the checkpoint stands.
        utcnow: this machine's clock.
    """
    subject = Subject(session, after, utcnow)
    found: list[Finding] = []
    for name, check in _CHECKS:
        told, away = _made(name, check, subject, guard)
        found += told
        if away:
            return Checkup(found)
    # With a wrong column or type nothing below could be told from it.
    checks = _ON_ROWS if not any(f.severity == "error" and f.check in {"columns", "key"} for f in found) else ()
    for name, check in checks:
        told, _ = _made(name, check, subject, guard)
        found += told
    return Checkup(found, subject.offset)


def _made(name: str, check: Check, subject: Subject, guard: Guard) -> tuple[list[Finding], bool]:
    """What a check finds, and whether the database could not be reached for it."""
    try:
        return guard(lambda: check(subject)), False
    except (SourceError, ConfigError) as refused:
        told = error(name, refused.message, refused.next_step)
        return [told], isinstance(refused, SourceUnavailable)
    except Exception as failed:  # noqa: BLE001 - a server unlike those we know must not silence the other checks
        return [
            warn(name, f"This could not be looked at ({type(failed).__name__}).", "Report it, with --debug.")
        ], False
