"""Several pollers, a line for each, the worst first."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from poller.admin.counts import number
from poller.admin.status import rank
from poller.backfill.status import BackfillStatus
from poller.model.escape import cut
from poller.model.when import ago, span
from poller_cli.output.status_words import at_work, state_word
from poller_cli.terminal.layout import (
    GAP,
    Column,
    cells,
    clipped,
    columns,
    distinct,
    padded,
    shortened,
    widths_of,
    wrapped,
)
from poller_cli.terminal.printing import coloured, printable

if TYPE_CHECKING:
    from poller.admin.status import PollerStatus

_TABLE = (
    Column("POLLER"),
    Column("STATE"),
    Column("LAG", right=True),
    Column("WAITING", right=True),
    Column("LAST COMMIT", right=True),
    Column("OWNER, OR WHY"),
)
_NOTHING = "-"
_ROOM = 14
"""With fewer columns than that for the last one, what it says has a line of its own."""
_LONGEST_NAME = 18
"""So many columns of a terminal, or a fifth, are a name's."""


def table(pollers: Sequence[PollerStatus], beneath: Mapping[str, Sequence[BackfillStatus]]) -> list[str]:
    """The lines. `beneath`: backfills that stand under the poller of that name."""
    shown = [one for poller in sorted(pollers, key=rank) for one in (poller, *beneath.get(poller.name, ()))]
    inner = {id(one) for group in beneath.values() for one in group}
    width = columns(sys.stdout)
    names = _names([one.name for one in shown], width)
    rows = [_row(one, "  " * (id(one) in inner) + name) for one, name in zip(shown, names, strict=True)]
    widths = widths_of(_TABLE[:-1], [row[:-1] for row in rows])
    used = sum(widths) + GAP * len(widths)
    if width is not None and used > width:
        return [line for one, row in zip(shown, rows, strict=True) for line in _stacked(one, row, width)]
    room = None if width is None else width - used
    lines = [padded(_TABLE, [*widths, 0], [column.head for column in _TABLE])]
    if room is not None and room < len(_TABLE[-1].head):
        lines = [padded(_TABLE[:-1], widths, [column.head for column in _TABLE[:-1]])]
    for one, row in zip(shown, rows, strict=True):
        lines += _lines(one, row, widths, room, width)
    return [*lines]


def _names(names: Sequence[str], width: int | None) -> list[str]:
    """As long as there is room for them; different ones stay different."""
    if width is None:
        return list(names)
    return distinct(names, max(_LONGEST_NAME, width // 5)) or list(names)


def _row(status: PollerStatus, name: str) -> list[str]:
    word = state_word(status)[0]
    lag = span(status.lag_seconds) if status.pending and status.lag_seconds is not None else _NOTHING
    waiting = _NOTHING if status.pending is None else number(status.pending) + "+" * status.pending_capped
    return [name, word, lag, waiting, _last(status), _owner_or_why(status)]


def _last(status: PollerStatus) -> str:
    at, now = status.committed_at, status.seen_at
    return _NOTHING if at is None or now is None else ago(at, now)


def _owner_or_why(status: PollerStatus) -> str:
    """Who works on it; else what keeps it from being well."""
    owner = status.lease.owner_id
    if status.severity == "well" and at_work(status) and owner is not None:
        return printable(cut(owner).removeprefix(f"{status.app_name}/"))
    first = next(iter(status.conditions), None)
    return "" if first is None or first.name == "idle" else printable(first.sentence)


def _lines(
    status: PollerStatus, row: Sequence[str], widths: Sequence[int], room: int | None, width: int | None
) -> list[str]:
    """A poller's line, its state in colour; and if there is no room for the last column, what that says beneath."""
    last, aside = row[-1], list[str]()
    if room is not None and cells(last) > room:
        if room < _ROOM:
            last, aside = "", wrapped(f"    {last}", width, hang=4)
        elif " " in last:
            last = clipped(last, room)
        else:
            last = shortened(last, room)
    line = padded(_TABLE, [*widths, 0], [*row[:-1], last])
    at = widths[0] + GAP
    word, colour = row[1], state_word(status)[1]
    return [line[:at] + coloured(word, colour, sys.stdout) + line[at + len(word) :], *aside]


def _stacked(status: PollerStatus, row: Sequence[str], width: int) -> list[str]:
    """On a terminal that is too narrow for columns: a name, and what there is to say beneath it."""
    name, word, lag, waiting, last, owner = row
    facts = [f"lag {lag}" * (lag != _NOTHING), f"waiting {waiting}" * (waiting != _NOTHING)]
    facts += [f"last commit {last}" * (last != _NOTHING), owner]
    text = ", ".join(fact for fact in facts if fact)
    head = wrapped(f"{name}  {word}", width, hang=2)
    head[-1] = head[-1].replace(word, coloured(word, state_word(status)[1], sys.stdout))
    return [*head, *(wrapped(f"  {text}", width, hang=2) if text else ())]
