"""The files that `poller init` writes: a configuration without secrets, and a handler that runs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.engine import make_url

HANDLERS = "handlers.py"
_BEGINS = '"""The handlers of '


@dataclass(frozen=True)
class Project:
    """Everything that was asked or found.

    Attributes:
        url: of the database, with its password; it never reaches a file. state: `sql` or `blob`.
        setting: the one that holds the URL already, by the user's own name for it; None where the URL was given.
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

    @property
    def embedded(self) -> bool:
        """Whether the URL stands in the configuration: a file's, which is no secret, unless a setting holds it."""
        return self.setting is None and make_url(self.url).get_backend_name() == "sqlite"

    @property
    def variable(self) -> str:
        """The setting that holds the URL."""
        return self.setting or re.sub(r"[^A-Z0-9]", "_", self.name.upper()).lstrip("0123456789") + "_DB_URL"

    @property
    def function(self) -> str:
        """The handler's name."""
        return "on_" + self.name.replace("-", "_")

    def configuration(self) -> str:
        """The text of `poller.toml`."""
        lines = [
            f"app_name = {_text(self.app)}",
            'environment = "development"          # "production" tightens the console\'s guardrails',
            "",
            "[state]",
            f"store = {_text(self.state)}",
            *(['connection = "AzureWebJobsStorage"   # the setting that holds the connection string']
              if self.state == "blob" else ['url = "sqlite:///state.db"']),
            "",
            f"[pollers.{self.name}]",
            f'handler = "{Path(HANDLERS).stem}:{self.function}"',
            'schedule = "*/10 * * * * *"          # every ten seconds, UTC',
            "batch_size = 500",
            "",
            f"[pollers.{self.name}.source]",
            f"url = {_text(self.url) if self.embedded else _setting(self.variable)}",
            *([f"schema = {_text(self.schema)}"] if self.schema else []),
            f"table = {_text(self.table)}",
            f"cursor_column = {_text(self.cursor)}",
            *([f"cursor_kind = {_text(self.kind)}"] if self.kind != "timestamp+pk" else []),
            *([f"cursor_time_zone = {_text(self.zone)}              # what its values mean: they name no zone"]
              if self.zone else []),
            f"pk_columns = [{', '.join(_text(name) for name in self.key)}]",
            'start_from = "beginning"             # or "now": only rows from now on',
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    @property
    def _about(self) -> str:
        """Code that says which rows: a table's name may be anything, and must not become code itself."""
        if re.fullmatch(r"\w[\w.$ -]*", self.table):
            return f'"""New and changed rows of {self.table}."""'
        return f'"""New and changed rows."""  # of {self.table!a}'

    def handlers(self) -> str:
        """The text of `handlers.py`."""
        return f'''{_BEGINS}{self.app}: each is given batches of rows, oldest first, at least once.

What a handler raises makes its batch come again; `batch.key(row)` tells a row that it has seen.
"""

from __future__ import annotations

from poller import Batch


def {self.function}(batch: Batch) -> None:
    {self._about}
    for row in batch:
        print(batch.key(row), dict(row))
'''


def is_ours(handlers: Path) -> bool:
    """Whether a file begins as one that `init` wrote."""
    try:
        return handlers.read_text(encoding="utf-8").startswith(_BEGINS)
    except (OSError, ValueError):
        return False


def slug(text: str, fallback: str) -> str:
    """A name as poller takes it: lower-case letters, digits and hyphens."""
    made = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63].strip("-")
    return made or fallback


def _text(value: str) -> str:
    """A TOML string; a percent sign is doubled, or it could begin a setting's name."""
    return json.dumps(value.replace("%", "%%"), ensure_ascii=False).replace("\x7f", "\\u007f")


def _setting(name: str) -> str:
    return f'"%{name}%"'
