"""What `poller prune` prints: who reads the table, what may be deleted, and what was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.admin.counts import rows
from poller.model.durations import format_duration
from poller_cli.output.models import PruneOutput, PruneReader
from poller_cli.terminal.printing import printable

if TYPE_CHECKING:
    from poller.admin.prune import PrunedRows, PrunePlan


def of_plan(name: str, app_name: str, plan: PrunePlan) -> PruneOutput:
    """As `prune --dry-run --json` prints it."""
    return PruneOutput(
        name=name,
        app_name=app_name,
        changed=False,
        table=plan.table,
        change_table=plan.captured,
        readers=[PruneReader(name=one.name, done=one.done, waiting=len(one.waiting)) for one in plan.readers],
        older_than=None if plan.age is None else format_duration(plan.age),
        rows=plan.rows,
        pruned_through=plan.pruned_through if plan.captured else None,
        bytes=plan.bytes,
    )


def of_done(output: PruneOutput, done: PrunedRows) -> PruneOutput:
    """As `prune --json` prints it."""
    through = output.pruned_through
    if output.change_table and done.through is not None:
        through = max(done.through, through or 0)
    return output.model_copy(update={"changed": done.rows > 0, "rows": done.rows, "pruned_through": through})


def screen(output: PruneOutput) -> str:
    """For people."""
    table = printable(output.table)
    of = f"{rows(output.rows)} of {table}"
    if output.changed:
        return f"{output.name}: {of} deleted"
    first = f"{output.name}: {of} can be deleted" if output.rows else f"{output.name}: nothing to delete in {table}"
    kind = "changes" if output.change_table else "rows of the poller's own table"
    size = "" if output.bytes is None else f"; the table has {output.bytes:,} bytes"
    lines = [first, f"  {kind}{'' if output.older_than is None else f' older than {output.older_than}'}{size}"]
    for at, one in enumerate(output.readers):
        place = "is at the beginning" if one.done is None else f"is done with {one.done}"
        waits = f", and {rows(one.waiting)} of it {'wait' if one.waiting > 1 else 'waits'}" if one.waiting else ""
        lines.append(f"  {printable(one.name)} {place}{waits}{': the limit' if at == 0 else ''}")
    return "\n".join(lines)
