"""What `poller recheck` prints: the rows that were never delivered, and what was done about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.admin.counts import rows
from poller_cli.output.models import RecheckOutput
from poller_cli.terminal.printing import printable

if TYPE_CHECKING:
    from poller.tick.recheck import Recheck

SHOWN = 10
KEPT = 1_000


def output(name: str, app_name: str, found: Recheck) -> RecheckOutput:
    """As `recheck --json` prints it."""
    return RecheckOutput(
        name=name,
        app_name=app_name,
        compared=found.compared,
        stretches=found.stretches,
        complete=found.complete,
        late_rows=len(found.rows),
        redelivered=found.redelivered,
        late=list(found.cursors[:KEPT]),
    )


def findings(found: RecheckOutput) -> str:
    """For people: what was found, before anything is done about it."""
    if not found.stretches:
        return f"{found.name}: no delivery was recorded in that time, so nothing could be compared."
    some = "" if found.complete else " so far (not all could be compared: look again, or with a smaller --since)"
    lines = [f"{found.name}: {rows(found.compared)} compared, {found.late_rows:,} never delivered{some}"]
    lines += [f"  {printable(str(cursor))}" for cursor in found.late[:SHOWN]]
    if found.late_rows > SHOWN:
        lines.append(f"  ... and {found.late_rows - SHOWN:,} more")
    return "\n".join(lines)


def result(found: RecheckOutput, again: str, shown: int, *, dry_run: bool) -> str | None:
    """For people: what was done about it, or is to be. `again`: the command that delivers them; `shown`: how many late
    rows were shown; some of them may not be late any more."""
    if dry_run:
        return (
            f"  A dry run: nothing was delivered. Without it {rows(found.late_rows)} would go to the handler; the "
            "checkpoint stays."
        )
    if found.redelivered:
        return f"  {found.redelivered:,} of {found.late_rows:,} went to the handler now; the checkpoint stayed."
    if found.late_rows:
        return f"  Deliver them: {again}"
    return "  None of them is late any more: they were delivered meanwhile, or changed." if shown else None
