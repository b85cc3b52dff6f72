"""What `poller peek` prints: the next rows as a table, or as JSON."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size

from poller.delivery.result import BoundOutput
from poller.model.cursor import Cursor
from poller.model.result import ResultModel
from poller.model.stamps import Stamp
from poller_cli.output.status_report import waits_above
from poller_cli.terminal.printing import is_terminal, printable

if TYPE_CHECKING:
    from poller.admin.peek import Peek
    from poller.ports import Lag

WIDEST = 40
"""A cell shows so many characters at most on a terminal."""


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
        waiting: what waits above the bound, where no row is below it.
        order: the columns that a terminal, which may be narrow, shows first.
    """
    start = printable(str(output.cursor or "the beginning"))
    if waiting is not None and waiting.pending:
        waits = waits_above(waiting.pending, waiting.pending_capped, output.bound)
        return f"{output.name}: after {start}, {printable(waits)}{_held(output.bound)}"
    if not output.rows:
        return f"{output.name}: no row after {start}{_held(output.bound)}"
    terminal = is_terminal(sys.stdout)
    names = list(output.rows[0])
    if terminal:
        names.sort(key=lambda name: order.index(name) if name in order else len(order))
    table = [names, *(["NULL" if row[name] is None else str(row[name]) for name in names] for row in output.rows)]
    cells = [[_cut(printable(cell), WIDEST if terminal else None) for cell in line] for line in table]
    widths = [min(max(map(cell_len, column)), WIDEST) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    width = shutil.get_terminal_size().columns if terminal else None
    return "\n".join(_cut(line, width) for line in [f"{output.name}: after {start}", *lines])


def _held(bound: BoundOutput | None) -> str:
    """Why no row is read though some may wait; nothing where nothing holds the bound."""
    if bound is None or (bound.held_by is None and (bound.value is not None or bound.kind == "none")):
        return ""
    held = None if bound.held_by is None else f"the bound is held by {bound.held_by}"
    why = ": ".join(part for part in (held, bound.reason) if part)
    return f" ({printable(why)})" if why else ""


def _cut(text: str, width: int | None) -> str:
    return text if width is None or cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)) + "…"
