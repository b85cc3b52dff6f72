"""The options that commands which change state share."""

from __future__ import annotations

from typing import Annotated

import typer

from poller_cli.session import poller_names

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Which poller.", show_default=False, autocompletion=poller_names)
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Needed where there is no terminal.")]
ConfirmOption = Annotated[
    str | None,
    typer.Option(
        "--confirm",
        metavar="NAME",
        help="The poller's name again, instead of typing it; in production --yes alone moves no checkpoint.",
        autocompletion=poller_names,
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what it would do, and change nothing.")]
BreakLeaseOption = Annotated[
    bool, typer.Option("--break-lease", help="Also while a worker holds the lease: fence it, and wait out its lease.")
]
AllowSkipOption = Annotated[bool, typer.Option("--allow-skip", help="Also where rows would never be delivered.")]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept in the audit trail with who you are.")
]
