"""What `poller init` prints of what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller_cli.output.findings import finding_output
from poller_cli.output.models import InitOutput
from poller_cli.terminal.printing import one_line, printable

if TYPE_CHECKING:
    from poller.project.plan import ProjectPlan
    from poller_cli.session import Session


def next_commands(session: Session, plan: ProjectPlan) -> list[str]:
    """What to run after it."""
    name = plan.new.name
    commands = [("check", name), ("run", name, "--once"), ("status", name)]
    if plan.new.captured:
        commands = [("capture", name, "--print"), ("capture", name, "--install"), *commands]
    return [session.command(*words) for words in commands]


def output(session: Session, plan: ProjectPlan) -> InitOutput:
    """As `init --json` prints it."""
    new = plan.new
    return InitOutput(
        config=str(new.config),
        handlers=str(plan.handlers),
        name=new.name,
        app_name=new.app,
        table=new.table,
        cursor_column=new.cursor or None,
        cursor_kind=new.kind or None,
        cursor_time_zone=new.zone,
        pk_columns=list(new.key),
        setting=new.setting,
        added=plan.there is not None,
        findings=[finding_output(one) for one in plan.findings],
        next=next_commands(session, plan),
    )


def lines(session: Session, plan: ProjectPlan) -> list[str]:
    """For people."""
    new = plan.new
    zone = f", taken as {new.zone}" if new.zone else ""
    followed = f"cursor {new.cursor} ({new.kind}{zone}), key {', '.join(new.key)}"
    if new.captured:
        followed = "the changes that triggers record, which are yet to be installed"
    said = [printable(f"{new.table}: {followed}")]
    for one in plan.findings:
        said.append(f"  {one.severity}: {one_line(one.message)}")
        if one.fix:
            said.append(f"    -> {one_line(one.fix)}")
    said.append(f"{'Wrote' if plan.there is None else f'Added {new.name} to'} {new.config} and {plan.handlers}.")
    if plan.editor_schema is not None:
        said.append(f"{plan.schema} is for editors, which complete and check {new.config.name} by it.")
    if plan.setting_to_set is not None:
        why = ": it holds a secret, so no file does" if plan.holds_secret else ""
        said.append(f"First set {plan.setting_to_set} to the database's URL{why}.")
        if plan.shares_setting:
            said.append(
                "Other pollers of the file take theirs from it too: if that is another database, name another setting, "
                "--url %NAME%."
            )
    if plan.fails:
        said.append("First fix the errors above: until then it cannot run.")
    return [*said, "Then:", *(f"  {command}" for command in next_commands(session, plan))]
