"""`poller sink ddl`: the tables that a fenced sink keeps beside its target."""

from __future__ import annotations

from typing import Annotated

import typer

from poller_cli import exits
from poller_cli.session import Session


def ddl(
    session: Session,
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="The target's SQLAlchemy URL. Only its kind of database counts; no password is needed.",
        ),
    ],
) -> int:
    """Print the statements that create the tables of a fenced sink, if its user may not create them on first use.
    Connects to nothing.

    Example: poller sink ddl postgresql://
    """
    from poller.sinks.schema import ddl as statements
    from poller_cli.output.models import SinkDdlOutput

    found = statements(url)
    session.show(SinkDdlOutput(statements=found), lambda: "\n\n".join(f"{statement};" for statement in found))
    return exits.DONE
