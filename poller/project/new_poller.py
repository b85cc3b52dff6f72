"""A poller to be configured, and the files for it: a configuration without secrets, and a handler that runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from sqlalchemy.engine import URL

from poller.databases.urls import identify

HANDLERS = "handlers.py"
SCHEMA = "poller.schema.json"
"""Beside the configuration: by it editors complete and check that."""
SCHEMA_LINE = f"#:schema ./{SCHEMA}"
"""As editors with Taplo read it, such as VS Code with Even Better TOML."""
_BEGINS = '"""The handlers of '


@dataclass(frozen=True)
class NewPoller:
    """Everything that was asked or found.

    Attributes:
        folder, config: where the files are, and which one is the configuration.
        app, name: of the application, and of the poller. state: the store, `sql`, `blob` or `table`.
        url: of the database. table, schema: in it. cursor, kind, zone, key: as in `[pollers.NAME.source]`; empty
            if triggers are to record its changes.
        identity: as in `[pollers.NAME.source]`; None where [defaults] say it.
        setting: the one that holds the URL; None if the URL itself is in the file, for it is not a secret.
    """

    folder: Path
    config: Path
    app: str
    name: str
    url: str
    state: str
    table: str
    schema: str | None
    cursor: str
    kind: str
    zone: str | None
    key: Sequence[str] = field(default=())
    setting: str | None = None
    identity: bool | str | None = None

    @property
    def captured(self) -> bool:
        """True if triggers are to record its changes."""
        return not self.cursor

    @property
    def has_daylight_saving(self) -> bool:
        """True if the clocks of its times are ever set back."""
        from poller.sources.columns import has_daylight_saving

        try:
            return self.zone is not None and has_daylight_saving(ZoneInfo(self.zone))
        except (ValueError, OSError, KeyError):  # not a zone: the configuration is refused for it
            return False

    @property
    def function(self) -> str:
        """The handler's name."""
        return "on_" + self.name.replace("-", "_")

    def configuration(self, *, with_schema: bool = False) -> str:
        """The text of `poller.toml`; `with_schema`: its first line names the schema beside it."""
        lines = [
            *([SCHEMA_LINE] if with_schema else []),
            f"app_name = {_text(self.app)}",
            'environment = "development"          # "production" tightens the console\'s guardrails',
            "",
            "[state]",
            f"store = {_text(self.state)}",
            *(['connection = "AzureWebJobsStorage"   # the setting that holds the connection string']
              if self.state != "sql" else ['url = "sqlite:///state.db"']),
        ]  # fmt: skip
        return "\n".join(lines) + "\n\n" + self.tables({})

    def tables(self, defaults: Mapping[str, object]) -> str:
        """The poller's tables in `poller.toml`; what `[defaults]` say of how it works is left to them;
        what they say of a source is not this one's."""
        ways = {
            "schedule": 'schedule = "*/10 * * * * *"          # every ten seconds, UTC',
            "batch_size": "batch_size = 500",
        }
        inherited = defaults.get("source")
        usual = self.kind == "timestamp+pk" and not (isinstance(inherited, Mapping) and "cursor_kind" in inherited)
        lines = [
            f"[pollers.{self.name}]",
            f'handler = "{Path(HANDLERS).stem}:{self.function}"',
            *(line for key, line in ways.items() if key not in defaults),
            "",
            f"[pollers.{self.name}.source]",
            f"url = {_text(self.url) if self.setting is None else _setting(self.setting)}",
            *(["identity = true                      # signs in: the app's own, or AZURE_CLIENT_ID's"]
              if self.identity is True else [f"identity = {_text(self.identity)}"] if self.identity else []),
            *([f"schema = {_text(self.schema)}"] if self.schema else []),
            f"table = {_text(self.table)}",
            *(self._capture() if self.captured else self._followed(usual=usual)),
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def _capture(self) -> list[str]:
        return [
            f"capture = true                       # the changes that triggers record: poller capture {self.name}",
            'start_from = "snapshot"              # its rows first; or "now": only changes from now on',
        ]

    def _followed(self, *, usual: bool) -> list[str]:
        """`usual`: the kind of cursor is the one that needs no word."""
        return [
            f"cursor_column = {_text(self.cursor)}",
            *([] if usual else [f"cursor_kind = {_text(self.kind)}"]),
            *([f"cursor_time_zone = {_text(self.zone)}              # what its values mean: they name no zone"]
              if self.zone else []),
            *(["allow_dst = true                     # its clocks are set back: one hour of each year happens twice"]
              if self.has_daylight_saving else []),
            f"pk_columns = [{', '.join(_text(name) for name in self.key)}]",
            'start_from = "beginning"             # or "now": only rows from now on',
        ]  # fmt: skip

    @property
    def _about(self) -> str:
        """Code that says which rows: a table's name may be anything, and must not become code itself."""
        what, more = ("Changes", ': row["_op"] is I, U, D or T') if self.captured else ("New and changed rows", "")
        if re.fullmatch(r"\w[\w.$ -]*", self.table):
            return f'"""{what} of {self.table}{more}."""'
        return f'"""{what}{more}."""  # of {self.table!a}'

    def handlers(self) -> str:
        """The text of `handlers.py`."""
        return f'''{_BEGINS}{self.app}: each is given batches of rows, oldest first, at least once.

What a handler raises makes its batch come again after a pause, until the row that fails is found; `batch.key(row)`
tells a row that it has seen.
"""

from __future__ import annotations

from poller import Batch


{self.handler(annotated=True)}'''

    def handler(self, *, annotated: bool) -> str:
        """The handler alone; `annotated`: whether its module knows `Batch`."""
        signature = "batch: Batch) -> None" if annotated else "batch)"
        return f"""def {self.function}({signature}:
    {self._about}
    for row in batch:
        print(batch.key(row), dict(row))
"""


def is_ours(handlers: Path) -> bool:
    """True if a file begins as one that `init` wrote."""
    try:
        return handlers.read_text(encoding="utf-8").startswith(_BEGINS)
    except (OSError, ValueError):
        return False


def is_schema_of_ours(path: Path) -> bool:
    """True if a file is a schema as `init` writes it, of this version or another."""
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(schema, dict) and str(schema.get("title", "")).endswith("poller.toml")


def slug(text: str, fallback: str) -> str:
    """A name as poller takes it: lower-case letters, digits and hyphens."""
    made = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63].strip("-")
    return made or fallback


def setting_for(url: URL, fallback: str) -> str:
    """A name for the setting that holds a database's URL, after the database: all its tables share it.

    `fallback`: what it is named after where the database has no name that a setting can have.
    """
    found = identify(url)
    of_database = (Path(found.database or "").stem if found.dialect == "sqlite" else found.database) or ""
    return f"{_upper(of_database) or _upper(fallback) or 'POLLER'}_DB_URL"


def _upper(text: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", text.upper()).lstrip("0123456789_").rstrip("_").removesuffix("_DB")


def _text(value: str) -> str:
    """A TOML string; a percent sign is doubled, or it could begin a setting's name."""
    return json.dumps(value.replace("%", "%%"), ensure_ascii=False).replace("\x7f", "\\u007f")


def _setting(name: str) -> str:
    return f'"%{name}%"'
