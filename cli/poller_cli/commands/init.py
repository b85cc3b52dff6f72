"""`poller init`: from a database to a poller that runs. Asks, or takes everything from options."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from poller_cli import exits
from poller_cli.session import Session

STORAGE = "AzureWebJobsStorage"
"""The setting that says where a Functions app keeps its state."""

if TYPE_CHECKING:
    from poller.admin.refusals import Refused
    from poller.config import PollerConfig
    from poller.model.finding import Finding
    from poller.sources.proposal import Catalogue, Proposal
    from poller_cli.project import Project
    from poller_cli.project_file import ProjectFile


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
        str | None,
        typer.Option(
            "--time-zone",
            metavar="ZONE",
            help="What a column without a zone means; default: the zone in which the database stamps it.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The poller's name.")] = None,
    app: Annotated[str | None, typer.Option("--app", metavar="APP", help="The application's name.")] = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="sql|blob", help="Where checkpoints are kept.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: take what is proposed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write both files anew, over what is there.")] = False,
) -> int:
    """Look at a database, and write poller.toml and a handler that runs.

    In a folder that has a poller.toml it adds a poller to that: what stands in it, and in handlers.py, stays as it is.
    A secret in the URL goes to an environment variable, never into a file; name one that is set (--url %NAME%), or let
    it ask. Nothing in the database is changed. Where it was killed in between, the same command goes on.

    Example: poller init --url postgresql://shop@db/shop --table orders --yes
    """
    from poller.admin.refusals import WrongArgument
    from poller.config.load import anchored
    from poller.sources.proposal import Catalogue
    from poller_cli.project import HANDLERS, Project, is_ours, slug
    from poller_cli.project_file import ProjectFile, handlers_with
    from poller_cli.project_url import GivenUrl
    from poller_cli.terminal.printing import tell

    ask = not (yes or session.json) and sys.stdin is not None and sys.stdin.isatty()
    folder = session.config.resolve().parent
    handlers = folder / HANDLERS
    if state not in {None, "sql", "blob"}:
        raise WrongArgument(f"--state is {state!r}.", next_step="Use sql or blob.")
    there = ProjectFile.read(session.config) if session.config.exists() and not force else None
    if there is not None:
        app, state = there.of_app(app, state, os.environ)
        if name is not None:
            there.free(name)
    elif handlers.exists() and not is_ours(handlers) and not force:
        raise _exist(handlers)
    given = GivenUrl.of(url or _asked("--url", "Database URL", ask=ask, hidden=True))
    if url is not None and given.setting is None and given.holds_secret:
        tell("the command line holds a secret, and others see it (ps, history); name a setting instead: --url %NAME%")
    address = given.text
    # What [defaults] say of it stands in the file already, where it may be a setting.
    with Catalogue(anchored(address, folder), schema or (there.schema if there else None)) as catalogue:
        proposal = catalogue.propose(table or _table(catalogue, ask=ask))
        column, kind, naive = _cursor(proposal, cursor, ask=ask)
        zone = _zone(catalogue, proposal.table, column, time_zone, ask=ask) if naive else None
    key = _key(proposal, pk, ask=ask)
    default_state = "blob" if os.environ.get(STORAGE) else "sql"
    app = _named("app", app or _answer("Application", slug(folder.name, "app"), ask=ask))
    name = _named("name", name or _answer("Poller", slug(proposal.table, "table"), ask=ask))
    project = Project(
        folder=folder,
        config=session.config,
        app=app,
        name=name if there is None else there.free(name),
        url=address,
        state=state or _answer("Checkpoints in (sql, blob)", default_state, ask=ask, among=("sql", "blob")),
        table=proposal.table,
        schema=schema,
        cursor=column,
        kind=kind,
        zone=zone,
        key=key,
        setting=given.kept_in(folder, there, name=name),
    )
    text = project.configuration() if there is None else there.with_poller(project)
    code: str | None = project.handlers()
    if there is not None and handlers.exists():
        code = handlers_with(handlers, project)
    findings = _findings(_checked(project, text), project)
    if there is not None and ProjectFile.read(session.config) != there:
        raise _changed(session.config)
    # The configuration last: where it is there, all of it is.
    if code is not None:
        _write(handlers, code, overwrite=force or there is not None)
    _write(session.config, text, overwrite=force or there is not None)
    _told(session, project, findings, there)
    return exits.FAILED if any(one.severity == "error" for one in findings) else exits.DONE


def _changed(path: Path) -> Refused:
    from poller.admin.refusals import Refused

    return Refused(f"{path} was changed meanwhile; nothing was added.", next_step="Run the same command again.")


def _exist(*paths: Path) -> Refused:
    from poller.admin.refusals import Refused

    one = "exist" if len(paths) > 1 else "exists"
    told = f"{' and '.join(map(str, paths))} {one} already; nothing was overwritten."
    return Refused(told, next_step="Add --force, or use -c.")


def _write(path: Path, text: str, *, overwrite: bool) -> None:
    """Whole or not at all; one that says the same is left as it is.

    Raises: Refused, where another is there; WrongArgument, where it cannot be written.
    """
    from poller.admin.refusals import WrongArgument
    from poller.files import write_whole

    try:
        write_whole(path, text, overwrite=overwrite)
    except FileExistsError:
        if path.read_text(encoding="utf-8", errors="replace") != text:
            raise _exist(path) from None
    except OSError as error:
        raise WrongArgument(f"The file {path} cannot be written: {error.strerror or error}.") from None


def _prompt(question: str, default: str | None) -> str:
    """Ask. What is proposed is a name of the database's: it must not steer the terminal."""
    from poller_cli.terminal.printing import printable

    shown = question if default is None else f"{question} [{printable(default)}]"
    return str(typer.prompt(shown, default=default, show_default=False))


def _table(catalogue: Catalogue, *, ask: bool) -> str:
    from poller.admin.refusals import WrongArgument
    from poller_cli.terminal.printing import printable

    if len(catalogue.tables) == 1 and not ask:
        return catalogue.tables[0]
    shown = ", ".join(catalogue.tables[:20]) + (", ..." if len(catalogue.tables) > 20 else "")
    if not ask:
        raise WrongArgument("--table is missing.", next_step=f"There are: {shown or 'none'}.")
    print(printable(f"Tables: {shown or 'none'}"))
    return _prompt("Table", catalogue.tables[0] if len(catalogue.tables) == 1 else None)


def _cursor(proposal: Proposal, given: str | None, *, ask: bool) -> tuple[str, str, bool]:
    """The column, its kind, and whether its times need a zone."""
    from poller.admin.refusals import WrongArgument
    from poller.sources.reading.inspection import did_you_mean

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


def _zone(catalogue: Catalogue, table: str, column: str, given: str | None, *, ask: bool) -> str:
    """What times of a column without a zone mean: as the database stamps them. Asked where that is not UTC.

    Raises: WrongArgument, where nothing can be asked and what the database stamps in has no name.
    """
    from poller.admin.refusals import WrongArgument
    from poller_cli.terminal.printing import printable

    if given is not None:
        return given
    # A zone that cannot be told is taken for UTC; the findings say that nobody knows.
    stamps = [one for one in catalogue.stamps(table, column) if one.offsets is not None]
    # A role's own zone, such as an administrator's, says less than that of all the others.
    stamps = [one for one in stamps if not one.role] or stamps
    other = next((one for one in stamps if one.iana != "UTC"), None)
    if other is None:
        return "UTC"
    if ask:
        stamped = printable(f"{column}, which the database stamps in {other} ({other.source})")
        return _prompt(f"Time zone of {stamped}", other.iana)
    if other.iana is None:
        raise WrongArgument(
            f"The database stamps {column} in {other} ({other.source}), which is no IANA time zone by its name.",
            next_step="Name the zone with --time-zone.",
        )
    return other.iana


def _key(proposal: Proposal, given: list[str] | None, *, ask: bool) -> list[str]:
    from poller.admin.refusals import WrongArgument
    from poller.sources.reading.inspection import did_you_mean

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
    from poller.admin.refusals import WrongArgument

    if not ask:
        raise WrongArgument(f"{option} is missing.", next_step="Give it; nothing can be asked here.")
    return str(typer.prompt(f"{question} (not shown)" if hidden else question, hide_input=hidden)).strip()


def _answer(question: str, proposed: str, *, ask: bool, among: tuple[str, ...] = ()) -> str:
    from poller.admin.refusals import WrongArgument

    answer = str(typer.prompt(question, default=proposed)).strip() if ask else proposed
    if among and answer not in among:
        raise WrongArgument(f"{answer!r} is none of {', '.join(among)}.")
    return answer


def _named(option: str, text: str) -> str:
    from poller.admin.refusals import WrongArgument
    from poller.config.types import is_name

    if not is_name(text):
        raise WrongArgument(
            f"--{option}: {text!r} is no name.", next_step="Use lower-case letters, digits and hyphens, at most 63."
        )
    return text


def _checked(project: Project, text: str) -> PollerConfig:
    """The new poller as poller reads it out of what is about to be written, what it has from [defaults] included.
    Settings of other pollers need not be set here.

    Raises: ConfigError.
    """
    from poller.config import load_each
    from poller.config.substitution import MissingSetting

    environ = dict(os.environ) if project.setting is None else {**os.environ, project.setting: project.url}
    config, wrong = load_each(project.config, environ, text=text)
    for name, error in wrong.items():
        if name == project.name or not isinstance(error, MissingSetting):
            raise error
    assert config is not None  # noqa: S101 - it holds the project's, which is not wrong
    return config.pollers[project.name]


def _findings(config: PollerConfig, project: Project) -> list[Finding]:
    """What `poller check` would say of the table: the index to create, above all."""
    from datetime import UTC, datetime

    from poller.sources import SqlSource
    from poller.wiring import open_source

    source = cast("SqlSource", open_source(config, project.name, file=str(project.config)))
    try:
        findings: list[Finding] = source.checkup(None, lambda: datetime.now(UTC)).findings
    finally:
        source.close()
    from poller.sources.checkup.updates import NEW_ROWS_ONLY

    return [one for one in findings if one.severity != "ok" or one.message.startswith(NEW_ROWS_ONLY)]


def _told(session: Session, project: Project, findings: list[Finding], there: ProjectFile | None) -> None:
    from poller.databases.urls import holds_secret, read_url
    from poller_cli.output.check_models import FindingOutput, InitOutput
    from poller_cli.output.models import as_json
    from poller_cli.project import HANDLERS
    from poller_cli.terminal.printing import one_line, print_json, printable

    added = there is not None
    following = [session.command("check", project.name), session.command("run", project.name, "--once")]
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
                    setting=project.setting,
                    added=added,
                    findings=[
                        FindingOutput(
                            check=f.check,
                            severity=f.severity,
                            message=one_line(f.message),
                            fix=one_line(f.fix) if f.fix else None,
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
        if f.fix:
            print(f"    -> {one_line(f.fix)}")
    wrote = f"Added {project.name} to" if added else "Wrote"
    print(f"{wrote} {session.config} and {project.folder / HANDLERS}.")
    if project.setting is not None and os.environ.get(project.setting) != project.url:
        why = ": it holds a secret, so no file does" if holds_secret(read_url(project.url, key="url")) else ""
        print(f"First set {project.setting} to the database's URL{why}.")
        if there is not None and project.setting in there.settings_of_urls():
            print(
                "Other pollers of the file take theirs from it too: if that is another database, name another setting, "
                "--url %NAME%."
            )
    if any(one.severity == "error" for one in findings):
        print("First fix what is called an error above: until then it cannot run.")
    print("Then:")
    for line in following:
        print(f"  {line}")
