"""What `poller status` prints: a table of several pollers, a screen of one, or JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from poller.admin.status import rank
from poller_cli.output.many import MANY, total
from poller_cli.output.status_screen import screen
from poller_cli.output.status_table import table
from poller_cli.output.status_words import state_word
from poller_cli.terminal.layout import fitted
from poller_cli.terminal.printing import of_poller

if TYPE_CHECKING:
    from poller.backfill.status import BackfillStatus
    from poller.backfill.survey import Survey
    from poller_cli.output.models import StatusOutput
    from poller_cli.session import Session


def status_output(looked: Survey) -> StatusOutput:
    """As `--json` prints it."""
    from poller_cli.output.models import StatusOutput

    return StatusOutput(pollers=looked.pollers, backfills=looked.backfills, backfills_unread=looked.unread)


def complaints(looked: Survey) -> list[str]:
    """What could not be read, one line each."""
    named = [one for one in looked.backfills or [] if one.name in looked.named]
    lines = [of_poller(one.name, one.error) for one in looked.pollers if one.error]
    if looked.not_listed is not None and not any(one.error for one in looked.pollers):
        lines.append(f"Whether there are backfills is not known: {looked.not_listed}")
    lines += looked.unreadable
    lines += [of_poller(one.name, one.error) for one in named if one.error]
    if looked.unread:
        lines.append(
            f"{looked.unread:,} documents more may be of backfills and were not looked at; poller status NAME shows "
            "any of them."
        )
    return lines


def screens(looked: Survey, session: Session, *, verbose: bool = False) -> list[str]:
    """One poller or backfill as a block that says all of it; several as a table, the worst first, or as blocks where
    `verbose`. With many, a line that counts them."""
    backfills = looked.backfills or []
    beneath: dict[str, list[BackfillStatus]] = {}
    for one in backfills:
        if one.name not in looked.named:
            beneath.setdefault(one.poller, []).append(one)
    shown = [*looked.pollers, *(one for one in backfills if one.name in looked.named)]
    if verbose or len(shown) == 1:
        ordered = sorted(shown, key=rank)
        return [screen(one, beneath.get(one.name, ()), verbose=verbose) for one in ordered]
    blocks = ["\n".join(table(shown, beneath))]
    words = {one.name: state_word(one)[0] for one in shown}
    ends = [total(words)] if len(shown) > MANY else []
    worst = min(shown, key=rank, default=None)
    if worst is not None and worst.severity != "well":
        ends.append(f"What to do: {session.command('status', worst.name)}")
    return [
        *blocks,
        *(fitted(line, sys.stdout) for line in ["\n".join(ends)] if line),
    ]
