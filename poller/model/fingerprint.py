"""The fingerprint: which source a checkpoint belongs to (sources.md, "Fingerprint").

`sha256:` over the canonical JSON (sorted keys, no spaces, UTF-8) of a description that holds no secret: no user, no
password, no driver, no option. Rotating a password or changing a driver changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict

from poller.errors import FieldDifference

UNKNOWN_FINGERPRINTS = frozenset({"", "sha256:..."})
"""What stands where a document was written without a fingerprint: nothing to compare, so the first tenure binds it."""


class DatabaseIdentity(BaseModel):
    """Which database, whoever connects to it and however.

    `dialect`: the family (postgresql, mysql, sqlite, mssql, oracle); `host` in lower case; `port` with the dialect's
    default filled in; `database` (for SQLite the absolute path, or `:memory:`). None where a dialect has no such thing.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    dialect: str
    host: str | None = None
    port: int | None = None
    database: str | None = None


class SourceDescription(BaseModel):
    """What the fingerprint hashes; kept in the document as `source`, so that a mismatch can be shown field by field."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    database: DatabaseIdentity
    schema_name: str | None = None
    table: str | None = None
    query: str | None = None
    cursor_column: str
    cursor_kind: str
    pk_columns: tuple[str, ...]
    filter: str | None = None

    def canonical(self) -> str:
        """The exact text that is hashed."""
        return json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def as_json(self) -> dict[str, Any]:
        """As it stands in the document; the schema is called `schema` there."""
        data = self.model_dump(mode="json")
        data["schema"] = data.pop("schema_name")
        return data

    def fingerprint(self) -> str:
        """`sha256:` and 64 hexadecimal digits."""
        return "sha256:" + hashlib.sha256(self.canonical().encode()).hexdigest()


def differences(stored: dict[str, Any] | None, configured: SourceDescription) -> list[FieldDifference]:
    """Field by field, what the document's `source` says and what is configured; empty where they agree or where the
    document does not describe its source. Nested fields are dotted (`database.host`)."""
    if not stored:
        return []
    ours, theirs = _flat(configured.as_json()), _flat(stored)
    return [
        FieldDifference(field=name, stored=theirs.get(name), configured=ours.get(name))
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


def _flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat
