"""`poller peek`: the next rows, without taking the lease."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poller_cli import exits
from poller_cli.session import NamedArgument, Session


def peek(
    session: Session,
    name: NamedArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=10_000, help="How many rows.")] = 10,
    arrow: Annotated[
        Path | None,
        typer.Option(
            "--arrow", metavar="FILE", help="Also write them to this file: .parquet, or .arrow. Needs the extra arrow."
        ),
    ] = None,
) -> int:
    """Show the rows that would be delivered next. Takes no lease, changes nothing.

    Example: poller peek orders --limit 3
    """
    from poller_cli.output.peek_report import peek_output, screen

    with session.app() as app:
        poller = app.one(name)
        peeked, source = poller.peek(limit), poller.source.describe()
    if arrow is not None and peeked.rows:
        from poller.admin.peek import write_table

        write_table(peeked, arrow)
    output = peek_output(name, poller.app_name, peeked)
    session.show(output, lambda: screen(output, peeked.lag, [source.cursor_column, *source.pk_columns]))
    return exits.DONE
