"""The settings of the relay `sql`."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from poller.config.options import Column, Options, Text
from poller.config.types import PositiveDuration


class SqlSettings(Options):
    """`poller.relays:sql`: rows into a table of another database, each once."""

    url: SecretStr | None = Field(default=None, min_length=1)
    """The database: a SQLAlchemy URL of PostgreSQL, MariaDB, MySQL or SQLite. A relative SQLite path starts at the
    folder of `poller.toml`. Give this or `url_env`."""

    url_env: Text | None = None
    """The environment variable that holds the URL, if it has a password."""

    identity: bool | Text = False
    """Sign in with a Microsoft Entra identity instead of a password, as a source's `identity` does."""

    schema_name: Text | None = Field(default=None, alias="schema")
    """The schema of the table; default: the default schema of the connection."""

    table: Text
    """The table, which exists. `poller_fence` and `poller_applied` beside it are made where they are missing."""

    key_columns: tuple[Column, ...] = Field(min_length=1)
    """The columns of the table that identify a row: its primary key, or a unique one."""

    mode: Literal["upsert", "insert"] = "upsert"
    """`upsert`: a row that is there is updated, and of a captured table one that was deleted is deleted. `insert`:
    nothing that is there is changed, and a row whose key is there is refused by name; for a table that keeps each
    version of a row, with the version in `key_columns`."""

    columns: dict[Column, Column] = Field(default_factory=dict)
    """Which column of the table takes which column of the row, such as `{order_id = "id", total = "total"}`. Default:
    all columns of the row, each by its own name, but `_op`, `_old`, `_change`, `_tx` and `_at` of a captured table."""

    version_column: Column | None = None
    """A column of the table that grows with each version, such as `updated_at`: a row never replaces one whose value
    there is greater. Default: rows replace what is there, in the order in which they come. A delete does not look at
    it."""

    on_truncate: Literal["delete", "stop"] = "stop"
    """If a captured table was emptied (TRUNCATE), `delete` empties the target too; `stop` leaves it as it is, and
    carries out no later change until this is `delete`."""

    on_snapshot: Literal["sweep", "delete", "stop"] = "stop"
    """If a snapshot of a captured table begins and the target has rows, some perhaps no longer in the table: `sweep`
    keeps them, and deletes at its end those that it did not name (`snapshot_column`); `delete` empties the target
    first; `stop` leaves it as it is, and carries out nothing until it is empty, or this is another."""

    snapshot_column: Column | None = None
    """For `on_snapshot = "sweep"`: an INTEGER column of the table, of no other use, in which the relay marks rows that
    the snapshot names."""

    timeout: PositiveDuration = timedelta(seconds=60)
    """The time that a statement may take, and how long the transaction of a worker that was stopped may stay open, if
    the server has such limits."""

    @field_validator("key_columns")
    @classmethod
    def _once_each(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise PydanticCustomError("names", "names a column twice")
        return names

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.url is None) == (self.url_env is None):
            key = "url" if self.url is None else "url_env"
            reason = "is missing: give url or url_env" if self.url is None else "and url exclude each other"
            raise PydanticCustomError("address", "{reason}", {"key": key, "reason": reason})
        named = {"key_columns": self.key_columns, "version_column": filter(None, [self.version_column])}
        for key, names in named.items() if self.columns else ():
            if any(name not in self.columns for name in names):
                raise PydanticCustomError("names", "names a column that is not in columns", {"key": key})
        if self.mode == "insert" and self.version_column is not None:
            reason = 'has no meaning with mode = "insert": nothing is replaced'
            raise PydanticCustomError("names", "{reason}", {"key": "version_column", "reason": reason})
        if self.version_column in self.key_columns:
            raise PydanticCustomError("names", "is one of key_columns, and cannot grow", {"key": "version_column"})
        self._check_sweep()
        return self

    def _check_sweep(self) -> None:
        """Raises: PydanticCustomError."""
        name, reason = self.snapshot_column, ""
        if (self.on_snapshot == "sweep") != (name is not None):
            given = 'has a meaning only with on_snapshot = "sweep"'
            reason = 'is missing: on_snapshot = "sweep" needs an INTEGER column of the table' if name is None else given
        elif name is not None and self.mode == "insert":
            reason = 'has no meaning with mode = "insert": nothing is deleted'
        elif name is not None and name in {*self.key_columns, *self.columns, self.version_column}:
            reason = "is a column that rows fill"
        if reason:
            raise PydanticCustomError("names", "{reason}", {"key": "snapshot_column", "reason": reason})
