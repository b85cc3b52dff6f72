"""What `poller capture` prints: the statements, what they cost, what was done, and what the changes prove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from poller.admin.counts import rows
from poller_cli.output.models import CaptureBreak, CaptureCost, CaptureOutput, CaptureProof
from poller_cli.terminal.printing import printable

if TYPE_CHECKING:
    from poller.databases.capture import CapturePlan, Removed
    from poller.model.change_chain import Chain
    from poller_cli.session import Session


class NamedPoller(NamedTuple):
    """The poller, and its application."""

    name: str
    app_name: str


def of_plan(
    named: NamedPoller, action: Literal["print", "install", "remove"], plan: CapturePlan, *, changed: bool
) -> CaptureOutput:
    """As `capture --json` prints a plan, or one that was carried out."""
    return CaptureOutput(
        name=named.name,
        app_name=named.app_name,
        action=action,
        changed=changed,
        table=plan.table,
        change_table=plan.changes,
        standing=plan.standing,
        key=list(plan.key),
        columns=list(plan.columns),
        old_values=plan.old,
        gap=plan.gap,
        statements=list(plan.statements),
        warnings=list(plan.warnings),
        cost=CaptureCost.model_validate(plan.cost, from_attributes=True),
        proof=None,
    )


def _bare(named: NamedPoller, action: Literal["remove", "verify"], **fields: object) -> CaptureOutput:
    """Where there is no plan to tell of."""
    nothing: dict[str, object] = dict.fromkeys(CaptureOutput.model_fields)
    lists: dict[str, object] = {"key": [], "columns": [], "statements": [], "warnings": []}
    said = {"name": named.name, "app_name": named.app_name, "action": action, "changed": False}
    return CaptureOutput.model_validate(nothing | lists | said | fields)


def of_removed(named: NamedPoller, removed: Removed) -> CaptureOutput:
    """As `capture --remove --json` prints it."""
    kept = None if removed.dropped else removed.changes
    changed = removed.triggers or removed.dropped
    return _bare(named, "remove", changed=changed, table=removed.table, change_table=kept)


def of_chain(named: NamedPoller, chain: Chain) -> CaptureOutput:
    """As `capture --verify --json` prints it."""
    proof = CaptureProof(
        changes=chain.changes,
        rows=chain.rows,
        compared=chain.compared,
        gaps=chain.gaps,
        breaks=chain.count,
        first_breaks=[CaptureBreak.model_validate(one, from_attributes=True) for one in chain.breaks],
    )
    return _bare(named, "verify", proof=proof)


def screen(output: CaptureOutput, session: Session, *, dry_run: bool) -> str:
    """For people."""
    match output.action:
        case "verify":
            return "\n".join(_proof(output))
        case "remove":
            return _removed(output, session, dry_run=dry_run)
        case "install" if output.changed:
            again = session.command("capture", output.name, "--install")
            done = {"absent": "is captured now", "installed": "was captured already, and is as asked for"}
            said = done.get(output.standing or "", "is captured again")
            lines = [f"{output.name}: {printable(output.table or '')} {said}; after each ALTER TABLE run: {again}"]
            return "\n".join([*lines, *_facts(output)[1:]])
    return "\n".join(_facts(output))


def script(output: CaptureOutput) -> str:
    """What would be run, to copy: no line of it is broken for a terminal, since a name may have spaces. Empty if it was
    run, or if there is nothing of that kind."""
    is_shown = output.action in ("print", "install") and not output.changed
    return "".join(f"\n{one};" for one in output.statements) if is_shown else ""


def _facts(output: CaptureOutput) -> list[str]:
    """What is captured, what it costs, and what may be missed."""
    values = "old and new values" if output.old_values else "new values"
    first = f"{output.name}: changes of {printable(output.table or '')} go to {printable(output.change_table or '')} "
    lines = [f"{first}({values} of {len(output.columns)} columns, key {printable(', '.join(output.key))})"]
    if output.gap is not None:
        lines.append(f"  A gap is written: changes may have been missed, since {printable(output.gap)}.")
    if output.cost is not None:
        cost = output.cost
        of = f"by {rows(cost.rows)} of the table" if cost.rows else "the table is empty"
        lines.append(
            f"  Each UPDATE of a row: about {cost.bytes_per_change:,} bytes and {cost.microseconds:,.0f} us more "
            f"(a row is {cost.json_bytes:,} bytes as JSON; estimated {of})."
        )
    lines += [f"  Note: {printable(one)}" for one in output.warnings]
    return lines


def _removed(output: CaptureOutput, session: Session, *, dry_run: bool) -> str:
    if dry_run:
        return f"{output.name}: a dry run: nothing was removed."
    where = printable(output.table or "")
    if output.change_table is None:
        return f"{output.name}: {where} is captured no longer, and its change table is dropped."
    drop = session.command("capture", output.name, "--remove", "--changes")
    kept = f"{printable(output.change_table)} is kept and ends with a gap; to drop it: {drop}"
    return f"{output.name}: {where} is captured no longer. {kept}"


def _proof(output: CaptureOutput) -> list[str]:
    proof = output.proof
    if proof is None:
        return []
    held = "the changes and the table agree" if not proof.breaks else f"they disagree in {proof.breaks:,} places"
    first = f"{output.name}: {proof.changes:,} changes and {rows(proof.rows)} compared"
    lines = [f"{first} ({proof.compared:,} of them are known by changes): {held}"]
    if proof.gaps:
        lines.append(
            f"  {proof.gaps:,} gaps among them: what was there before each was not compared with what follows."
        )
    lines += [
        f"  {'a row' if one.change is None else f'change {one.change}'}: {printable(one.what)}"
        for one in proof.first_breaks
    ]
    if proof.breaks > len(proof.first_breaks):
        lines.append(f"  ... and {proof.breaks - len(proof.first_breaks):,} more")
    return lines
