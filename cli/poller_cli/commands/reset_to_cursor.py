"""`poller reset-to-cursor`: go on right after a row that the operator names."""

from __future__ import annotations

from typing import Annotated

import typer

from poller_cli.guards import (
    AllowSkipOption,
    BreakLeaseOption,
    ConfirmOption,
    Consent,
    DryRunOption,
    NameArgument,
    ReasonOption,
    YesOption,
)
from poller_cli.session import Session


def reset_to_cursor(
    session: Session,
    name: NameArgument,
    value: Annotated[
        str, typer.Option("--value", metavar="TEXT", help="The cursor column's value.", show_default=False)
    ],
    pk: Annotated[
        list[str] | None,
        typer.Option("--pk", metavar="COLUMN=VALUE", help="A key column's value; once for each key column."),
    ] = None,
    reason: ReasonOption = None,
    yes: YesOption = False,
    confirm: ConfirmOption = None,
    dry_run: DryRunOption = False,
    break_lease: BreakLeaseOption = False,
    allow_skip: AllowSkipOption = False,
) -> int:
    """Go on right after the row of this cursor value and key, which need not exist.

    The database checks the value before anything is written, and says how the column itself writes it. A time without
    a zone is meant in UTC where the column has zones.

    Example: poller reset-to-cursor orders --value 2026-04-07T01:23:45 --pk id=12093
    """
    from poller_cli.changes import StateEditor
    from poller_cli.resets import checked_cursor, reset_plan

    consent = Consent(yes, confirm, dry_run, break_lease, allow_skip, reason)
    with session.app() as app:
        poller = app.poller(name)
        pk_columns = app.config.pollers[name].source.pk_columns
        cursor = checked_cursor(poller, value, pk or [], pk_columns, app.config.pollers[name].source.cursor_column)
        return StateEditor(session, app, poller, consent).carry_out(reset_plan(poller, "reset-to-cursor", cursor))
