"""The arguments that several commands share, and the options of those that change something: what is asked for and
agreed to."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from poller_cli.help import EVERY_CHANGE
from poller_cli.session import MadeOf, OnlyPoller, poller_names
from poller_cli.terminal.confirmation import Consent

NameArgument = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Which poller. [default: the only one]", autocompletion=poller_names),
    OnlyPoller(),
]
_REASON = Annotated[
    str | None,
    typer.Option(
        "--reason",
        metavar="TEXT",
        help="Why; kept in the audit trail with who you are.",
        rich_help_panel=EVERY_CHANGE,
    ),
]
_YES = Annotated[
    bool,
    typer.Option(
        "--yes",
        "-y",
        help="Do not ask; needed if there is no terminal. NAME must be given.",
        rich_help_panel=EVERY_CHANGE,
    ),
]
_CONFIRM = Annotated[
    str | None,
    typer.Option(
        "--confirm",
        metavar="NAME",
        help="The poller's name again, instead of typing it.",
        rich_help_panel=EVERY_CHANGE,
        hidden=True,
        autocompletion=poller_names,
    ),
]
_DRY_RUN = Annotated[
    bool, typer.Option("--dry-run", help="Show what it would do, and change nothing.", rich_help_panel=EVERY_CHANGE)
]
_BREAK_LEASE = Annotated[
    bool,
    typer.Option(
        "--break-lease",
        help="Also while a worker holds the lease: fence it, and wait out its lease.",
        rich_help_panel=EVERY_CHANGE,
    ),
]
_ALLOW_SKIP = Annotated[
    bool, typer.Option("--allow-skip", help="Also if rows are then never delivered.", rich_help_panel=EVERY_CHANGE)
]
_VERBOSE = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Also show where the state document is kept.", rich_help_panel=EVERY_CHANGE),
]

_AGREED: dict[str, tuple[object, object]] = {
    "yes": (_YES, False),
    "confirm": (_CONFIRM, None),
    "dry_run": (_DRY_RUN, False),
}
_DELIVERED = {"reason": (_REASON, None), **_AGREED}
_RECORDED = {**_DELIVERED, "verbose": (_VERBOSE, False)}
_FENCED = {**_RECORDED, "break_lease": (_BREAK_LEASE, False)}

Agreed = Annotated[Consent, MadeOf(Consent, _AGREED)]
"""The options of a command that touches no state document."""
Placed = Annotated[Consent, MadeOf(Consent, {**_AGREED, "verbose": (_VERBOSE, False)})]
"""Of one that makes documents, and leaves no record of its own."""
Delivered = Annotated[Consent, MadeOf(Consent, _DELIVERED)]
"""Of one that hands rows to the handler and moves no checkpoint."""
Recorded = Annotated[Consent, MadeOf(Consent, _RECORDED)]
"""Of one whose record says why."""
Fenced = Annotated[Consent, MadeOf(Consent, _FENCED)]
"""Of one that takes the lease."""
Moved = Annotated[Consent, MadeOf(Consent, {**_FENCED, "allow_skip": (_ALLOW_SKIP, False)})]
"""Of one that moves a checkpoint."""


def duration(text: str | None, option: str, step: str = "") -> timedelta | None:
    """The time that an option says, if it is given. Raises: WrongArgument, with what to do as its `step`."""
    from poller.admin.refusals import WrongArgument
    from poller.model.durations import parse_duration

    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as wrong:
        raise WrongArgument(f"{option}: {wrong}.", next_step=step) from None
