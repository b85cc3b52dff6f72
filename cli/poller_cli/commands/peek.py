"""`poller peek`: the next rows, without taking the lease."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poller_cli import exits
from poller_cli.session import NamedArgument, Session

if TYPE_CHECKING:
    from poller.admin.peek import Peek
    from poller.ports import Lag
    from poller_cli.output.peek_model import PeekOutput

WIDEST = 40
"""A cell shows so many characters at most on a terminal."""


def peek(
    session: Session,
    name: NamedArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=10_000, help="How many rows.")] = 10,
) -> int:
    """Show the rows that would be delivered next. Takes no lease, changes nothing.

    Example: poller peek orders --limit 3
    """
    from poller_cli.terminal.printing import print_json

    with session.app() as app:
        poller = app.named(name).only()
        peeked = poller.peek(limit)
        source = poller.source.describe()
    output = _output(name, poller.app_name, peeked)
    if session.json:
        print_json(output)
    else:
        print("\n".join(_screen(output, peeked.lag, [source.cursor_column, *source.pk_columns])))
    return exits.DONE


def _output(name: str, app_name: str, peeked: Peek) -> PeekOutput:
    from poller.admin.status import BoundOutput
    from poller.delivery.result import bound_as_json
    from poller_cli.output.peek_model import PeekOutput

    return PeekOutput(
        name=name,
        app_name=app_name,
        cursor=peeked.cursor,
        checkpoint_updated_at=peeked.checkpoint_updated_at,
        rows=[{key: plain(value) for key, value in row.items()} for row in peeked.rows],
        bound=BoundOutput.model_validate(bound_as_json(peeked.bound)),
    )


def plain(value: Any) -> Any:
    """A value as JSON keeps it: what it has no form for becomes a text; bytes as hex; no NaN, which is no JSON."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case dict():
            return {str(key): plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case _ if hasattr(value, "isoformat"):
            return value.isoformat()
        case _:
            return str(value).encode("utf-8", "replace").decode()


def _screen(output: PeekOutput, waiting: Lag | None, order: list[str]) -> list[str]:
    """`order`: the columns that a terminal, which may be narrow, shows first."""
    from rich.cells import cell_len

    from poller_cli.output.status_report import waits_above
    from poller_cli.terminal.printing import is_terminal, printable

    start = printable(str(output.cursor or "the beginning"))
    if waiting is not None and waiting.pending:
        waits = waits_above(waiting.pending, waiting.pending_capped, output.bound)
        return [f"{output.name}: after {start}, {printable(waits)}{_held(output.bound)}"]
    if not output.rows:
        return [f"{output.name}: no row after {start}{_held(output.bound)}"]
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
    return [_cut(line, width) for line in [f"{output.name}: after {start}", *lines]]


def _held(bound: Any) -> str:
    """Why no row is read though some may wait; nothing where nothing holds the bound."""
    from poller_cli.terminal.printing import printable

    if bound is None or (bound.held_by is None and (bound.value is not None or bound.kind == "none")):
        return ""
    held = None if bound.held_by is None else f"the bound is held by {bound.held_by}"
    why = ": ".join(part for part in (held, bound.reason) if part)
    return f" ({printable(why)})" if why else ""


def _cut(text: str, width: int | None) -> str:
    from rich.cells import cell_len, set_cell_size

    return text if width is None or cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)) + "…"
