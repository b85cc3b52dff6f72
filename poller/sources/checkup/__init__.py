"""The doctor's SQL side: what is or may go wrong with a source, and what fixes it.

Reads only. A check that fails is a finding, and the others still run.
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
from poller.sources.checkup import server, table
from poller.sources.checkup.subject import Subject
from poller.sources.session import SourceSession

Guard: TypeAlias = Callable[[Callable[[], list[Finding]]], list[Finding]]
Check: TypeAlias = Callable[[Subject], list[Finding]]

_CHECKS: tuple[tuple[str, Check], ...] = (
    ("database", lambda one: one.checks.privileges(one)),
    (tls.CHECK, server.transport),
    ("connections", server.connections),
    ("relation", lambda one: one.checks.relation(one)),
    ("capture", table.captured),
    ("row_security", lambda one: one.checks.row_security(one)),
    ("key", table.key),
    ("columns", table.columns),
)
_ON_ROWS: tuple[tuple[str, Check], ...] = (
    ("nulls", table.nulls),
    ("index", table.index),
    ("plan", table.plan),
    ("filter", table.selective),
    ("relation", lambda one: one.checks.behind(one)),
    ("relation", table.limits),
    ("forms", table.forms),
    ("round_trip", table.round_trip),
    ("time_zone", server.time_zone),
    ("updates", table.updates),
    ("clock", server.clock),
    ("future", server.future),
    ("prepared", server.prepared),
    ("bound", server.bound),
    ("readers", server.readers),
)


@dataclass(frozen=True, slots=True)
class Checkup:
    """The findings, in the order of the checks.

    Attributes:
        offset_seconds: how far the database's clock is ahead of this machine's; None if it was not read.
    """

    findings: list[Finding]
    offset_seconds: float | None = None


def examine(session: SourceSession, guard: Guard, after: Cursor | None, utcnow: Callable[[], datetime]) -> Checkup:
    """All checks of one source.

    Args:
        guard: runs a check and translates the driver's errors into ours. after: the checkpoint.
        utcnow: this machine's clock.
    """
    subject = Subject(session, after, utcnow)
    found: list[Finding] = []
    for name, check in _CHECKS:
        findings, unreachable = _run(name, check, subject, guard)
        found += findings
        if unreachable:
            return Checkup(found)
    # With a wrong column or type the other checks say nothing.
    checks = _ON_ROWS if not any(f.severity == "error" and f.check in {"columns", "key"} for f in found) else ()
    for name, check in checks:
        findings, _ = _run(name, check, subject, guard)
        found += findings
    return Checkup(found, None if "ahead" not in vars(subject) else subject.ahead.seconds)


def _run(name: str, check: Check, subject: Subject, guard: Guard) -> tuple[list[Finding], bool]:
    """What a check finds, and whether the database was unreachable."""
    try:
        return guard(lambda: check(subject)), False
    except (SourceError, ConfigError) as refused:
        return [error(name, refused.message, refused.next_step)], isinstance(refused, SourceUnavailable)
    except Exception as failed:  # noqa: BLE001 - an unknown kind of server must not stop the other checks
        return [warn(name, f"This check failed ({type(failed).__name__}).", "Report it, with --debug.")], False
