"""`poller init`: from a database to a poller that runs. Asks, or takes everything from options."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poller_cli import exits
from poller_cli.session import Session

STORAGE = "AzureWebJobsStorage"
"""The setting that says where a Functions app keeps its state."""

if TYPE_CHECKING:
    from poller.model.finding import Finding
    from poller.sources.proposal import Catalogue, Proposal
    from poller_cli.project import Project
    from poller_cli.refusals import Refused


def init(
    session: Session,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="The database, as a SQLAlchemy URL, or the %NAME% of a setting."),
    ] = None,
    table: Annotated[str | None, typer.Option("--table", metavar="TABLE", help="The table or view to follow.")] = None,
    schema: Annotated[str | None, typer.Option("--schema", metavar="SCHEMA", help="The table's schema.")] = None,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="COLUMN", help="The column that grows with every change.")
    ] = None,
    pk: Annotated[
        list[str] | None, typer.Option("--pk", metavar="COLUMN", help="A key column; repeat it for more.")
    ] = None,
    time_zone: Annotated[
        str, typer.Option("--time-zone", metavar="ZONE", help="What a column without a zone means.")
    ] = "UTC",
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The poller's name.")] = None,
    app: Annotated[str | None, typer.Option("--app", metavar="APP", help="The application's name.")] = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="sql|blob", help="Where checkpoints are kept.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: take what is proposed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
) -> int:
    """Look at a database, and write poller.toml and a handler that runs.

    A URL's password goes to an environment variable, never into the file. Nothing in the database is changed. Files
    that exist are left alone; where only the handler is there and is the one that it would write, it was killed in
    between, and goes on.

    Example: poller init --url postgresql://shop@db/shop --table orders --yes
    """
    from poller.config.load import anchored
    from poller.sources.proposal import Catalogue
    from poller_cli.project import HANDLERS, Project, is_ours, slug
    from poller_cli.refusals import WrongArgument

    ask = not (yes or session.json) and sys.stdin is not None and sys.stdin.isatty()
    folder = session.config.resolve().parent
    handlers = folder / HANDLERS
    there = [session.config] * session.config.exists() + [handlers] * (handlers.exists() and not is_ours(handlers))
    if there and not force:
        raise _exist(*there)
    if state not in {None, "sql", "blob"}:
        raise WrongArgument(f"--state is {state!r}.", next_step="Use sql or blob.")
    address, setting = _url(url, ask=ask)
    with Catalogue(anchored(address, folder), schema) as catalogue:
        proposal = catalogue.propose(table or _table(catalogue, ask=ask))
    column, kind, naive = _cursor(proposal, cursor, ask=ask)
    key = _key(proposal, pk, ask=ask)
    default_state = "blob" if os.environ.get(STORAGE) else "sql"
    project = Project(
        folder=folder,
        config=session.config,
        app=_named("app", app or _answer("Application", slug(folder.name, "app"), ask=ask)),
        name=_named("name", name or _answer("Poller", slug(proposal.table, "table"), ask=ask)),
        url=address,
        state=state or _answer("Checkpoints in (sql, blob)", default_state, ask=ask, among=("sql", "blob")),
        table=proposal.table,
        schema=schema,
        cursor=column,
        kind=kind,
        zone=time_zone if naive else None,
        key=key,
        setting=setting,
    )
    _check(project)
    findings = _findings(project)
    # The configuration last: where it is there, all of it is.
    for path, text in ((handlers, project.handlers()), (session.config, project.configuration())):
        _write(path, text, overwrite=force)
    _told(session, project, findings)
    return exits.FAILED if any(one.severity == "error" for one in findings) else exits.DONE


def _exist(*paths: Path) -> Refused:
    from poller_cli.refusals import Refused

    one = "exist" if len(paths) > 1 else "exists"
    told = f"{' and '.join(map(str, paths))} {one} already; nothing was overwritten."
    return Refused(told, next_step="Add --force, or use -c.")


def _write(path: Path, text: str, *, overwrite: bool) -> None:
    """Whole or not at all; one that says the same is left as it is.

    Raises: Refused, where another is there; WrongArgument, where it cannot be written.
    """
    from poller_cli.files import write_whole
    from poller_cli.refusals import WrongArgument

    try:
        write_whole(path.resolve(), text, overwrite=overwrite)  # what a link leads to
    except FileExistsError:
        if path.read_text(encoding="utf-8", errors="replace") != text:
            raise _exist(path) from None
    except OSError as error:
        raise WrongArgument(f"The file {path} cannot be written: {error.strerror or error}.") from None


def _url(given: str | None, *, ask: bool) -> tuple[str, str | None]:
    """The URL, and the setting that it was read from, if it was."""
    import re

    from poller_cli.refusals import WrongArgument

    text = given or _asked("--url", "Database URL", ask=ask, hidden=True)
    if not (len(text) > 2 and text.startswith("%") and text.endswith("%")):
        return text, None
    setting = text[1:-1]
    if re.fullmatch("[A-Z_][A-Z0-9_]*", setting) is None:
        raise WrongArgument(
            f"--url: {setting!r} is no name of a setting.", next_step="Use upper-case letters, digits and underscores."
        )
    found = os.environ.get(setting)
    if not found:
        raise WrongArgument(f"--url: the environment variable {setting} is not set.")
    return found, setting


def _prompt(question: str, default: str | None) -> str:
    """Ask. What is proposed is a name of the database's: it must not steer the terminal."""
    from poller_cli.terminal import printable

    shown = question if default is None else f"{question} [{printable(default)}]"
    return str(typer.prompt(shown, default=default, show_default=False))


def _table(catalogue: Catalogue, *, ask: bool) -> str:
    from poller_cli.refusals import WrongArgument
    from poller_cli.terminal import printable

    if len(catalogue.tables) == 1 and not ask:
        return catalogue.tables[0]
    shown = ", ".join(catalogue.tables[:20]) + (", ..." if len(catalogue.tables) > 20 else "")
    if not ask:
        raise WrongArgument("--table is missing.", next_step=f"There are: {shown or 'none'}.")
    print(printable(f"Tables: {shown or 'none'}"))
    return _prompt("Table", catalogue.tables[0] if len(catalogue.tables) == 1 else None)


def _cursor(proposal: Proposal, given: str | None, *, ask: bool) -> tuple[str, str, bool]:
    """The column, its kind, and whether its times need a zone."""
    from poller.sources.inspection import did_you_mean
    from poller_cli.refusals import WrongArgument

    known = {one.column: one for one in proposal.cursors}
    if given is None and not known and not ask:
        raise WrongArgument(
            f"{proposal.table} has no column that could be a cursor: no timestamp, no single integer key.",
            next_step="Name one with --cursor, or add a column that is set at every change.",
        )
    if given is None:
        best = next(iter(known), None)
        given = _prompt("Column that grows with every change", best) if ask else str(best)
    if given not in proposal.columns:
        raise WrongArgument(
            f"{proposal.table} has no column {given!r}.", next_step=did_you_mean(given, proposal.columns)
        )
    one = known.get(given)
    if one is None:
        return given, "timestamp+pk", False
    return one.column, one.kind, one.needs_zone


def _key(proposal: Proposal, given: list[str] | None, *, ask: bool) -> list[str]:
    from poller.sources.inspection import did_you_mean
    from poller_cli.refusals import WrongArgument

    names = given or list(proposal.key)
    if ask and not given:
        told = _prompt("Key columns (unique together, never NULL)", ",".join(names) or None)
        names = [part.strip() for part in told.split(",") if part.strip()]
    if not names:
        raise WrongArgument(f"{proposal.table} has no primary or unique key.", next_step="Name its columns with --pk.")
    for name in names:
        if name not in proposal.columns:
            raise WrongArgument(
                f"{proposal.table} has no column {name!r}.", next_step=did_you_mean(name, proposal.columns)
            )
    return names


def _asked(option: str, question: str, *, ask: bool, hidden: bool = False) -> str:
    from poller_cli.refusals import WrongArgument

    if not ask:
        raise WrongArgument(f"{option} is missing.", next_step="Give it; nothing can be asked here.")
    return str(typer.prompt(f"{question} (not shown)" if hidden else question, hide_input=hidden)).strip()


def _answer(question: str, proposed: str, *, ask: bool, among: tuple[str, ...] = ()) -> str:
    from poller_cli.refusals import WrongArgument

    answer = str(typer.prompt(question, default=proposed)).strip() if ask else proposed
    if among and answer not in among:
        raise WrongArgument(f"{answer!r} is none of {', '.join(among)}.")
    return answer


def _named(option: str, text: str) -> str:
    from poller.config.types import is_name
    from poller_cli.refusals import WrongArgument

    if not is_name(text):
        raise WrongArgument(
            f"--{option}: {text!r} is no name.", next_step="Use lower-case letters, digits and hyphens, at most 63."
        )
    return text


def _check(project: Project) -> None:
    """What is about to be written must be what poller accepts. Raises: ConfigError."""
    import tempfile

    from poller.config import load_config

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "poller.toml"
        path.write_text(project.configuration(), encoding="utf-8")
        load_config(path, {**os.environ, project.variable: project.url})


def _findings(project: Project) -> list[Finding]:
    """What `poller check` would say of the table: the index to create, above all."""
    from datetime import UTC, datetime

    from poller.config.load import anchored
    from poller.sources import SqlSource

    source = SqlSource(
        anchored(project.url, project.folder),
        table=project.table,
        schema=project.schema,
        cursor_column=project.cursor,
        cursor_kind=project.kind,
        cursor_time_zone=project.zone,
        pk_columns=project.key,
    )
    try:
        findings: list[Finding] = source.checkup(None, lambda: datetime.now(UTC)).findings
    finally:
        source.close()
    return [one for one in findings if one.severity != "ok"]


def _told(session: Session, project: Project, findings: list[Finding]) -> None:
    from poller_cli.check_outputs import FindingOutput, InitOutput
    from poller_cli.outputs import as_json
    from poller_cli.project import HANDLERS
    from poller_cli.terminal import one_line, print_json, printable

    following = [session.command("check", project.name), session.command("run", project.name, "--once")]
    variable = None if project.embedded else project.variable
    if session.json:
        print_json(
            as_json(
                InitOutput(
                    config=str(session.config),
                    handlers=str(project.folder / HANDLERS),
                    name=project.name,
                    app_name=project.app,
                    table=project.table,
                    cursor_column=project.cursor,
                    cursor_kind=project.kind,
                    cursor_time_zone=project.zone,
                    pk_columns=list(project.key),
                    setting=variable,
                    findings=[
                        FindingOutput(
                            check=f.check,
                            severity=f.severity,
                            message=one_line(f.message),
                            mend=one_line(f.mend) if f.mend else None,
                        )
                        for f in findings
                    ],
                    next=following,
                )
            )
        )
        return
    zone = f", taken as {project.zone}" if project.zone else ""
    key = ", ".join(project.key)
    print(printable(f"{project.table}: cursor {project.cursor} ({project.kind}{zone}), key {key}"))
    for f in findings:
        print(f"  {f.severity}: {one_line(f.message)}")
        if f.mend:
            print(f"    -> {one_line(f.mend)}")
    print(f"Wrote {session.config} and {project.folder / HANDLERS}.")
    if variable is not None and os.environ.get(variable) != project.url:
        print(f"First set {variable} to the database's URL: it holds the password, so no file does.")
    if any(one.severity == "error" for one in findings):
        print("First mend what is called an error above: until then it cannot run.")
    print("Then:")
    for line in following:
        print(f"  {line}")
