"""From a database to a poller that runs: what would be written, decided before a file is touched; then written."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from poller.admin.refusals import Refused, WrongArgument
from poller.config import PollerConfig, load_each
from poller.config.sqlite_paths import anchored
from poller.config.substitution import MissingSetting
from poller.config.suggestions import did_you_mean
from poller.config.types import is_name
from poller.databases import tokens
from poller.databases.kinds import KINDS
from poller.databases.urls import holds_secret, read_url
from poller.errors import CaptureGap
from poller.files import write_whole
from poller.model.finding import Finding
from poller.project.choices import Choices
from poller.project.file import ProjectFile, handlers_with
from poller.project.new_poller import (
    HANDLERS,
    SCHEMA,
    SCHEMA_LINE,
    NewPoller,
    is_ours,
    is_schema_of_ours,
    slug,
)
from poller.project.url import GivenUrl
from poller.sources import SqlSource
from poller.sources.checkup.table import NEW_ROWS_ONLY
from poller.sources.proposal import Catalogue, Proposal

STORAGE = "AzureWebJobsStorage"
"""The setting that says where a Functions app keeps its state."""
STORES = ("sql", "blob", "table")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the new poller is to be; None: what `Choices` decide.

    Attributes:
        config: the file to write, or to add to.
        url: of the database, or the `%NAME%` of a setting that holds it.
        table, schema, cursor, key, time_zone: as in `[pollers.NAME.source]`. capture: follow the changes that triggers
            record, instead of a column.
        name, app, state: the poller's name, the application's, and the store (`sql`, `blob` or `table`).
        identity: signs in to the database: `true` or `false`, or the prefix of its app settings.
        force: replace both files, if they are there.
        editor_schema: the JSON Schema of the configuration, which is kept beside it for editors; None: it is not.
        utcnow: this machine's clock.
    """

    config: Path
    url: str | None = None
    identity: str | None = None
    table: str | None = None
    schema: str | None = None
    cursor: str | None = None
    capture: bool = False
    key: Sequence[str] = ()
    time_zone: str | None = None
    name: str | None = None
    app: str | None = None
    state: str | None = None
    force: bool = False
    editor_schema: str | None = field(default=None, repr=False)
    utcnow: Callable[[], datetime] = field(default=lambda: datetime.now(UTC), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPlan:
    """What would be written.

    Attributes:
        new: the poller. there: the configuration that it is added to; None where both files are new.
        configuration: the text of `poller.toml`. code: that of `handlers.py`; None if it has the handler already.
        findings: what is wrong with the source, such as an index to create.
        force: whether files that are there are replaced.
        editor_schema: the text of the schema that the configuration names in its first line; None if it names none.
    """

    new: NewPoller
    there: ProjectFile | None
    configuration: str = field(repr=False)
    code: str | None = field(repr=False)
    findings: Sequence[Finding]
    force: bool
    editor_schema: str | None = field(default=None, repr=False)

    @property
    def handlers(self) -> Path:
        """The module of the handler."""
        return self.new.folder / HANDLERS

    @property
    def schema(self) -> Path:
        """The schema for editors."""
        return self.new.folder / SCHEMA

    @property
    def setting_to_set(self) -> str | None:
        """The environment variable that is to be set to the database's URL before the poller runs, if one is."""
        setting = self.new.setting
        return setting if setting is not None and os.environ.get(setting) != self.new.url else None

    @property
    def holds_secret(self) -> bool:
        """True if the database's URL holds one."""
        return holds_secret(read_url(self.new.url, key="url"))

    @property
    def shares_setting(self) -> bool:
        """True if other pollers of the file take their URL from the same setting."""
        return self.there is not None and self.new.setting in self.there.settings_of_urls()

    @property
    def fails(self) -> bool:
        """True if the poller cannot run until an error among the findings is fixed."""
        return any(one.severity == "error" for one in self.findings)

    def write(self) -> None:
        """Write the files, each whole or not at all; the configuration last: where it is there, all of it is.

        Raises: Refused, if another file is there, or was changed meanwhile; WrongArgument, if one cannot be
            written.
        """
        if self.there is not None and ProjectFile.read(self.new.config) != self.there:
            raise Refused(
                f"{self.new.config} was changed meanwhile; nothing was added.", next_step="Run the same command again."
            )
        overwrite = self.force or self.there is not None
        if self.editor_schema is not None:
            overwritten = self.force or is_schema_of_ours(self.schema)
            _write(self.schema, self.editor_schema, overwrite=overwritten)
        if self.code is not None:
            _write(self.handlers, self.code, overwrite=overwrite)
        _write(self.new.config, self.configuration, overwrite=overwrite)


def plan(wanted: Wanted, choices: Choices) -> ProjectPlan:
    """Look at the database, and decide what to write. Changes nothing.

    Raises: WrongArgument, Refused (a file is there), ConfigError, SourceError, SourceUnavailable; what `choices` raise.
    """
    folder = wanted.config.resolve().parent
    if wanted.capture and wanted.cursor is not None:
        raise WrongArgument("--capture and --cursor exclude each other.", next_step="Leave one of them out.")
    if wanted.state is not None and wanted.state not in STORES:
        raise WrongArgument(f"--state is {wanted.state!r}.", next_step="Use sql, blob or table.")
    there = _file_there(wanted, folder / HANDLERS)
    app, state = wanted.app, wanted.state
    if there is not None:
        app, state = there.of_app(app, state, os.environ)
        if wanted.name is not None:
            there.free(wanted.name)
    given = GivenUrl.of(wanted.url or choices.url())
    # What [defaults] say of it stands in the file already, where it may be a setting.
    schema = wanted.schema or (there.schema if there is not None else None)
    identity = _identity(wanted, given, there, choices)
    signs_in = identity if identity is not None else (there.identity if there is not None else False)
    with Catalogue(
        anchored(given.text, folder), schema, tokens.chosen(signs_in, os.environ, key="identity")
    ) as catalogue:
        proposal = catalogue.propose(wanted.table or choices.table(catalogue.tables))
        column = wanted.cursor
        if column is None and not wanted.capture:
            column = choices.cursor(proposal)
        captured = column is None
        if captured:
            _check_capture(proposal, wanted)
        cursor, kind, naive = ("", "", False) if column is None else _cursor(proposal, column)
        zone = wanted.time_zone if naive else None
        if naive and zone is None:
            zone = _zone(catalogue, proposal.table, cursor, choices)
    key = [] if captured else _key(proposal, wanted.key or choices.key(proposal))
    app = _name("app", app or choices.app(slug(folder.name, "app")))
    name = _name("name", wanted.name or choices.name(slug(proposal.table, "table")))
    new = NewPoller(
        folder=folder,
        config=wanted.config,
        app=app,
        name=name if there is None else there.free(name),
        url=given.text,
        state=state or _store(choices.state("blob" if os.environ.get(STORAGE) else "sql")),
        table=proposal.table,
        schema=wanted.schema,
        cursor=cursor,
        kind=kind,
        zone=zone,
        key=key,
        identity=identity,
        setting=given.kept_in(folder, there, name=name),
    )
    if there is None:
        text, named = new.configuration(with_schema=wanted.editor_schema is not None), True
    else:
        text, named = there.with_poller(new), there.text.removeprefix("\ufeff").startswith(SCHEMA_LINE)
    handlers = folder / HANDLERS
    code = handlers_with(handlers, new) if there is not None and handlers.exists() else new.handlers()
    findings = _findings(_checked(new, text), new, wanted.utcnow)
    return ProjectPlan(
        new=new,
        there=there,
        configuration=text,
        code=code,
        findings=findings,
        force=wanted.force,
        editor_schema=wanted.editor_schema if named else None,
    )


def _file_there(wanted: Wanted, handlers: Path) -> ProjectFile | None:
    """The configuration to add to. Raises: Refused, if only handlers of the user's are there; ConfigError."""
    if wanted.force:
        return None
    if wanted.config.exists():
        return ProjectFile.read(wanted.config)
    if handlers.exists() and not is_ours(handlers):
        raise _exists(handlers)
    return None


def _identity(wanted: Wanted, given: GivenUrl, there: ProjectFile | None, choices: Choices) -> bool | str | None:
    """Who signs in; None if the file says it of all, or no person was asked. A person is asked where a token may take
    the place of a password that the URL does not hold."""
    said = wanted.identity
    if said is None and (there is None or there.identity is False) and given.takes_identity:
        said = choices.identity()
    if said is None:
        return None
    return {"true": True, "false": False}.get(said.lower(), said)


def _check_capture(proposal: Proposal, wanted: Wanted) -> None:
    """Raises: WrongArgument, if triggers cannot record its changes, or an option is of no use then."""
    if wanted.key or wanted.time_zone is not None:
        raise WrongArgument(
            "--pk and --time-zone are of no use if triggers record the changes.", next_step="Leave them out."
        )
    if not proposal.capture:
        able = ", ".join(sorted(one for one, kind in KINDS.items() if kind.capture))
        raise WrongArgument(
            f"Triggers cannot record the changes of {proposal.table}: that needs a table with a primary key, in one of"
            f" these databases: {able}.",
            next_step="Add a primary key, or name a column with --cursor.",
        )


def _cursor(proposal: Proposal, column: str) -> tuple[str, str, bool]:
    """The column, its kind, and whether its times need a zone. Raises: WrongArgument."""
    _known(proposal, column)
    one = next((one for one in proposal.cursors if one.column == column), None)
    return (column, "timestamp+pk", False) if one is None else (column, one.kind, one.needs_zone)


def _zone(catalogue: Catalogue, table: str, column: str, choices: Choices) -> str:
    """What times of a column without a zone mean: as the database stamps them. Chosen where that is not UTC."""
    # A zone that is not known is taken for UTC; the findings say that it is not known.
    stamps = [one for one in catalogue.stamps(table, column) if one.offsets is not None]
    # A role's own zone, such as an administrator's, says less than that of all the others.
    stamps = [one for one in stamps if not one.role] or stamps
    other = next((one for one in stamps if one.iana != "UTC"), None)
    return "UTC" if other is None else choices.zone(column, other)


def _key(proposal: Proposal, columns: Sequence[str]) -> list[str]:
    """The columns of the key. Raises: WrongArgument."""
    if not columns:
        raise WrongArgument(f"{proposal.table} has no primary or unique key.", next_step="Name its columns with --pk.")
    for column in columns:
        _known(proposal, column)
    return list(columns)


def _known(proposal: Proposal, column: str) -> None:
    if column not in proposal.columns:
        raise WrongArgument(
            f"{proposal.table} has no column {column!r}.", next_step=did_you_mean(column, proposal.columns)
        )


def _name(option: str, text: str) -> str:
    if not is_name(text):
        raise WrongArgument(
            f"--{option}: {text!r} is an invalid name.",
            next_step="Use lower-case letters, digits and hyphens, at most 63.",
        )
    return text


def _store(answer: str) -> str:
    if answer not in STORES:
        raise WrongArgument(f"{answer!r} is none of {', '.join(STORES)}.")
    return answer


def _checked(new: NewPoller, text: str) -> PollerConfig:
    """The new poller as poller reads it out of what is about to be written, what it has from [defaults] included.
    Settings of other pollers need not be set here.

    Raises: ConfigError.
    """
    environ = dict(os.environ) if new.setting is None else {**os.environ, new.setting: new.url}
    config, wrong = load_each(new.config, environ, text=text)
    for name, error in wrong.items():
        if name == new.name or not isinstance(error, MissingSetting):
            raise error
    assert config is not None  # noqa: S101 - it holds the new poller, which is not wrong
    return config.pollers[new.name]


def _findings(config: PollerConfig, new: NewPoller, utcnow: Callable[[], datetime]) -> list[Finding]:
    """What `poller check` would say of the table: the index to create, above all."""
    source = SqlSource.from_config(config, new.name, file=str(new.config))
    try:
        if new.captured and isinstance(source.missing(), CaptureGap):
            return []  # yet to be installed
        findings: list[Finding] = source.checkup(None, utcnow).findings
    finally:
        source.close()
    return [one for one in findings if one.severity != "ok" or one.message.startswith(NEW_ROWS_ONLY)]


def _write(path: Path, text: str, *, overwrite: bool) -> None:
    """Whole or not at all; one that says the same is left as it is."""
    try:
        write_whole(path, text, overwrite=overwrite)
    except FileExistsError:
        if path.read_text(encoding="utf-8", errors="replace") != text:
            raise _exists(path) from None
    except OSError as error:
        raise WrongArgument(f"The file {path} cannot be written: {error.strerror or error}.") from None


def _exists(path: Path) -> Refused:
    return Refused(f"{path} exists already; nothing was overwritten.", next_step="Add --force, or use -c.")
