"""The fingerprint: which source a checkpoint belongs to (sources.md, "Fingerprint").

`sha256:` over the canonical JSON (sorted keys, no spaces, UTF-8) of a description that holds no secret: no user, no
password, no driver, no option. Rotating a password or changing a driver changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from poller.errors import FieldDifference

UNKNOWN_FINGERPRINTS = frozenset({"", "sha256:..."})
"""Fingerprints of documents that were written without one: nothing can be compared, so the first tenure binds it."""


class DatabaseIdentity(BaseModel):
    """Which database it is, whatever the user, the driver and the options.

    `dialect`: the family (postgresql, mysql, sqlite, mssql); `host` in lower case; `port` with the dialect's
    default filled in; `database` (for SQLite the absolute path, or `:memory:`). None if a dialect has no such thing.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    dialect: str
    host: str | None = None
    port: int | None = None
    database: str | None = None


class SourceDescription(BaseModel):
    """What the fingerprint hashes; kept in the document as `source`, so that a mismatch can be shown field by field.

    `left_open`: fields (as in the document, dotted) that the configuration leaves to the server, which was not asked
    yet. `configured`: where the server was asked, the description before that, as in documents that were written
    without asking. Neither is part of the document's `source`.
    """

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    database: DatabaseIdentity
    schema_name: str | None = None
    table: str | None = None
    query: str | None = None
    cursor_column: str
    cursor_kind: str
    pk_columns: tuple[str, ...]
    filter: str | None = None
    left_open: tuple[str, ...] = Field(default=(), exclude=True)
    configured: SourceDescription | None = Field(default=None, exclude=True)

    def canonical(self) -> str:
        """The exact text that is hashed."""
        return json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def as_json(self) -> dict[str, Any]:
        """As in the document, which calls the schema `schema`."""
        data = self.model_dump(mode="json")
        data["schema"] = data.pop("schema_name")
        return data

    def fingerprint(self) -> str:
        """`sha256:` and 64 hexadecimal digits."""
        return "sha256:" + hashlib.sha256(self.canonical().encode()).hexdigest()

    def as_configured(self) -> SourceDescription:
        """Without the server's answers: the same whether it was asked or not."""
        return self.configured or self

    def resolved(self, said: Mapping[str, Any]) -> SourceDescription:
        """With the server's answers for the fields that were left open; those without an answer stay as configured."""
        base = self.as_configured()
        return self._filled(said).model_copy(update={"left_open": (), "configured": base})

    def extended(self, **fields: Any) -> SourceDescription:
        """With more fields in the hash: a part of the source, say."""
        base = None if self.configured is None else self.configured.model_copy(update=fields)
        return self.model_copy(update={**fields, "configured": base})

    def of_capture(self, table: str) -> SourceDescription:
        """Those of the changes of a table. When their table was made, only the server knows."""
        left_open = (*self.left_open, "capture.made_at")
        return self.model_copy(update={"capture": {"table": table, "made_at": None}, "left_open": left_open})

    def as_stored(self, fingerprint: str, stored: Mapping[str, Any] | None) -> SourceDescription | None:
        """While the server was not asked: the description with a document's own values in the fields left open, if
        that is what the document's fingerprint hashes; else None."""
        if not self.left_open or not stored:
            return None
        theirs = _flat(dict(stored))
        filled = self._filled({name: theirs.get(name) for name in self.left_open})
        return filled if filled.fingerprint() == fingerprint else None

    def belongs(self, fingerprint: str, stored: Mapping[str, Any] | None) -> bool:
        """True if a checkpoint with this fingerprint and `source` belongs to this source, as far as that is known now:
        one without a fingerprint does, and one that was written before the server was asked."""
        if fingerprint in UNKNOWN_FINGERPRINTS or fingerprint == self.fingerprint():
            return True
        if self.configured is not None and fingerprint == self.configured.fingerprint():
            return True
        return self.as_stored(fingerprint, stored) is not None

    def _filled(self, said: Mapping[str, Any]) -> SourceDescription:
        base = self.as_configured()
        known = {name: said[name] for name in base.left_open if said.get(name) is not None}
        parts = {name.partition(".")[2]: value for name, value in known.items() if name.startswith("database.")}
        filled: dict[str, Any] = {
            "database": base.database.model_copy(update=parts),
            "schema_name": known.get("schema", base.schema_name),
        }
        if "capture.made_at" in known:
            filled["capture"] = {**(base.model_extra or {})["capture"], "made_at": known["capture.made_at"]}
        return base.model_copy(update=filled)


def differences(stored: dict[str, Any] | None, configured: SourceDescription) -> list[FieldDifference]:
    """The fields in which the document's `source` and the configuration differ; empty if the document does not
    describe its source. Nested fields are dotted (`database.host`). A field that the configuration leaves open differs
    only where the server was asked, now and when the document was written."""
    if not stored:
        return []
    ours, theirs = _flat(configured.as_json()), _flat(stored)
    base = configured.as_configured()
    unasked = _flat(base.as_json())
    for name in base.left_open:
        if configured.left_open or unasked.get(name) == theirs.get(name):
            ours[name] = theirs.get(name)
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
