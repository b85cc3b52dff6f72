"""`poller init`: from a database to a poller that runs. Asks, or takes everything from options."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from poller_cli import exits
from poller_cli.session import Session


def init(
    session: Session,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="The database's SQLAlchemy URL, or %NAME% of a setting."),
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option(
            "--identity",
            metavar="true|PREFIX",
            help="Sign in with a Microsoft Entra identity. It takes the place of a password. true: the app's own; "
            "PREFIX: that of the settings PREFIX__clientId and PREFIX__credential.",
        ),
    ] = None,
    table: Annotated[str | None, typer.Option("--table", metavar="TABLE", help="The table or view to follow.")] = None,
    schema: Annotated[str | None, typer.Option("--schema", metavar="SCHEMA", help="The table's schema.")] = None,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="COLUMN", help="The column that grows with every change.")
    ] = None,
    capture: Annotated[bool, typer.Option("--capture", help="Follow changes that triggers are to record.")] = False,
    pk: Annotated[
        list[str] | None, typer.Option("--pk", metavar="COLUMN", help="A key column; repeat it for more.")
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            "--time-zone",
            metavar="ZONE",
            help="What a column without a zone means. If it is not given, the zone in which the database stamps it.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The poller's name.")] = None,
    app: Annotated[str | None, typer.Option("--app", metavar="APP", help="The application's name.")] = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="sql|blob|table", help="Where checkpoints are kept.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: take what is proposed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace both files, if they are there.")] = False,
) -> int:
    """Look at a database, and write or extend poller.toml, with a handler that runs.

    Example: poller init --url postgresql://shop@db/shop --table orders --yes

    With --capture no column is needed, and deletes are seen (docs/capture.md).

    What a poller.toml and handlers.py already hold stays as it is. Beside a new poller.toml it writes
    poller.schema.json, by which editors complete and check it. A secret in the URL goes to an environment variable,
    never into a file; name one that is set (--url %NAME%), or let it ask. Nothing in the database is changed. If it is
    interrupted, the same command goes on.
    """
    from poller.project.choices import Choices
    from poller.project.plan import Wanted, plan
    from poller.project.url import GivenUrl
    from poller.runtime import SystemRuntime
    from poller_cli.output import init_report
    from poller_cli.output.schemas import config_schema, render
    from poller_cli.terminal.layout import fitted
    from poller_cli.terminal.printing import notice
    from poller_cli.terminal.questions import Questions

    if url and GivenUrl.of(url).shows_secret:
        notice("the command line holds a secret, and others see it (ps, history); name a setting instead: --url %NAME%")
    ask = not (yes or session.json) and sys.stdin is not None and sys.stdin.isatty()
    wanted = Wanted(
        config=session.config,
        url=url,
        identity=identity,
        table=table,
        schema=schema,
        cursor=cursor,
        capture=capture,
        key=pk or (),
        time_zone=time_zone,
        name=name,
        app=app,
        state=state,
        force=force,
        editor_schema=render(config_schema()),
        utcnow=(session.runtime or SystemRuntime()).utcnow,
    )
    planned = plan(wanted, Questions() if ask else Choices())
    planned.write()
    session.show(
        init_report.output(session, planned),
        lambda: fitted("\n".join(init_report.lines(session, planned)), sys.stdout, hang=4),
    )
    return exits.FAILED if planned.fails else exits.DONE
