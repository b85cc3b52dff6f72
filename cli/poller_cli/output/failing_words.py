"""What `poller status` and `poller watch` say of failing rows."""

from __future__ import annotations

from collections.abc import Sequence

from poller.admin.counts import rows
from poller.admin.failing import FailingOutput
from poller.admin.status import PollerStatus
from poller.delivery.result import TickResult
from poller.model.cursor import Cursor
from poller.model.escape import cut
from poller.model.when import moment


def failures(status: PollerStatus) -> str:
    """How often the pending batch failed, and when it is tried again; nothing where it did not fail."""
    found = status.failing
    if not found.failures:
        return ""
    often = "1 failure" if found.failures == 1 else f"{found.failures:,} failures in a row"
    if status.halted or status.paused:
        return often
    return f"{often}, tries again {f'at {moment(found.retry_at)}' if found.retry_at else 'with the next tick'}"


def culprit(found: FailingOutput) -> str:
    """Which row fails, or where it is searched for; nothing where neither is known."""
    if found.row is not None:
        return f"{cut(str(found.row))} fails, and nothing behind it is delivered"
    if found.searched_up_to is not None:
        return f"searching for the one that fails among the rows up to {cut(str(found.searched_up_to))}"
    return ""


def waiting(found: FailingOutput) -> list[tuple[str, str]]:
    """Rows that wait, by the name of their line."""
    lines = []
    if found.aside:
        since = f", the oldest since {moment(found.aside_since)}" if found.aside_since else ""
        lines.append(("aside", f"{rows(found.aside)}, tried again by {_itself(found.aside)}{since}"))
    if found.quarantined:
        since = f", the oldest since {moment(found.quarantined_since)}" if found.quarantined_since else ""
        lines.append(("waiting", f"{rows(found.quarantined)} for a person{since}"))
    if found.blocked:
        lines.append(("blocked", found.blocked))
    return lines


def next_command(status: PollerStatus) -> tuple[str, tuple[str, ...]] | None:
    """What a person can do about them beside fixing the handler or the row, and the command; None where nothing
    waits."""
    found = status.failing
    words: tuple[str, ...]
    if found.quarantined or found.blocked:
        words = ("quarantine", "list", status.name)
    elif found.row is not None and (pk := _pk(found.row)):
        words = ("quarantine", "add", status.name, *pk)
    else:
        return None
    return what_to_do(words, halted=bool(status.halted)), words


def what_to_do(words: Sequence[str], *, halted: bool = False) -> str:
    """What comes before such a command."""
    if words[1] == "list":
        return "Look at them"
    if halted:
        return "Fix it, or set the row aside"
    return "Nothing in an outage, where all rows fail alike; else fix it, or set the row aside"


def left_behind(result: TickResult) -> str:
    """How many rows wait although none is left to deliver; nothing where none does."""
    aside, person = result.aside or 0, result.quarantined or 0
    said = [f"{rows(aside)} set aside, tried again by {_itself(aside)}"] if aside else []
    if person:
        said.append(f"{rows(person)} for a person to look at")
    return "; ".join(said)


def _pk(row: Cursor) -> list[str]:
    return [part for name, value in (row.tiebreaker or {}).items() for part in ("--pk", f"{name}={value}")]


def _itself(count: int) -> str:
    return "itself" if count == 1 else "themselves"
