"""What `poller peek` prints: the next rows as a table, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from poller.model.cursor import Cursor
from poller.model.result import ResultModel
from poller.model.stamps import Stamp
from poller.tick.result import BoundOutput
from poller_cli.output.status_words import waits_above
from poller_cli.terminal.layout import GAP, cells, clipped, columns, shortened
from poller_cli.terminal.printing import folded, printable

if TYPE_CHECKING:
    from poller.admin.peek import Peek
    from poller.ports import Lag

WIDEST = 40
"""The most characters that a cell shows on a terminal."""


class PeekOutput(ResultModel):
    """`poller peek --json`."""

    name: str
    app_name: str
    cursor: Cursor | None
    """Where the checkpoint stands; null is the beginning."""
    checkpoint_updated_at: Stamp | None = None
    rows: list[dict[str, Any]]
    """The next rows, in order; values that JSON has no form for are texts."""
    bound: BoundOutput | None
    """Below what rows are read."""


def peek_output(name: str, app_name: str, peeked: Peek) -> PeekOutput:
    """As `peek --json` prints it."""
    return PeekOutput(
        name=name,
        app_name=app_name,
        cursor=peeked.cursor,
        checkpoint_updated_at=peeked.checkpoint_updated_at,
        rows=[{key: _plain(value) for key, value in row.items()} for row in peeked.rows],
        bound=BoundOutput.model_validate(peeked.bound, from_attributes=True),
    )


def _plain(value: Any) -> Any:
    """A value as JSON keeps it: what it has no form for, NaN too, becomes a text; bytes become hex."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case _ if hasattr(value, "isoformat"):
            return value.isoformat()
        case _:
            return str(value).encode("utf-8", "replace").decode()


def screen(output: PeekOutput, waiting: Lag | None, order: list[str]) -> str:
    """For people: the table, or why there is no row.

    Args:
        waiting: what waits above the bound, if no row is below it.
        order: the columns that a terminal, which may be narrow, shows first.
    """
    start = printable(str(output.cursor or "the beginning"))
    if waiting is not None and waiting.pending:
        waits = waits_above(waiting.pending, waiting.pending_capped, output.bound)
        return _folded(f"{output.name}: after {start}, {printable(waits)}{_held(output.bound)}")
    if not output.rows:
        return _folded(f"{output.name}: no row after {start}{_held(output.bound)}")
    width = columns(sys.stdout)
    names = list(output.rows[0])
    if width is not None:
        names.sort(key=lambda name: order.index(name) if name in order else len(order))
    cells_of = [[printable(name), *(_cell(row[name], width is not None) for row in output.rows)] for name in names]
    widths = [min(max(map(cells, column)), WIDEST) for column in cells_of]
    shown = len(names) if width is None else _fitting(widths, width)
    widths = [widths[0] if width is None else min(widths[0], width), *widths[1:shown]]
    if width is not None:
        cells_of[0] = [_short(cell, widths[0]) for cell in cells_of[0]]
    lines = [
        "  ".join(cell + " " * (size - cells(cell)) for cell, size in zip(line, widths, strict=True)).rstrip()
        for line in zip(*cells_of[:shown], strict=True)
    ]
    lines.insert(1, "  ".join("-" * size for size in widths))
    if left := len(names) - shown:
        lines.append(
            _folded(f"and {left:,} more column{'s' * (left != 1)}, for which it is too narrow (--json has all)")
        )
    return "\n".join([_folded(f"{output.name}: after {start}"), *lines])


def _folded(text: str) -> str:
    return folded(text, hang=2, stream=sys.stdout)


def _cell(value: Any, on_terminal: bool) -> str:
    text = "NULL" if value is None else printable(str(value))
    return _short(text, WIDEST) if on_terminal else text


def _short(text: str, width: int) -> str:
    return clipped(text, width) if " " in text else shortened(text, width)


def _fitting(widths: Sequence[int], width: int) -> int:
    """The number of columns that fit; at least one."""
    used, count = 0, 0
    for size in widths:
        used += size + GAP * (count > 0)
        if used > width and count:
            break
        count += 1
    return count


def _held(bound: BoundOutput | None) -> str:
    """Why no row is read though some may wait; nothing where nothing holds the bound."""
    if bound is None or (bound.held_by is None and (bound.value is not None or bound.kind == "none")):
        return ""
    held = None if bound.held_by is None else f"the bound is held by {bound.held_by}"
    why = ": ".join(part for part in (held, bound.reason) if part)
    return f" ({printable(why)})" if why else ""
