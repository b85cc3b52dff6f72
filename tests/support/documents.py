"""Documents as they are promised, held against schemas/ whatever a test has a poller write; and deleted, as the library
never does."""

from __future__ import annotations

import json
from collections.abc import Iterable

from poller.model.fingerprint import DatabaseIdentity, SourceDescription
from poller.stores import MemoryStore
from tests.support.schemas import validator

SOURCE = SourceDescription(
    database=DatabaseIdentity(dialect="sqlite", database="/data/shop.db"),
    table="orders",
    cursor_column="updated_at",
    cursor_kind="timestamp+pk",
    pk_columns=("id",),
)
"""What documents of these tests say of their source."""
_SCHEMAS = {"state/": "state", "quarantine/": "quarantine-record"}
"""By the names of documents; a backup is a copy of whatever stood there, also of what somebody else spoilt."""


def hold_to_schemas(written: Iterable[tuple[str, bytes]]) -> None:
    """Raise jsonschema's ValidationError for the first document, by name and body, that its schema does not describe.
    Each body is looked at once; documents without a schema are passed over."""
    for name, body in dict.fromkeys(written):
        for prefix, schema in _SCHEMAS.items():
            if name.startswith(prefix):
                validator(schema).validate(json.loads(body))


def delete(memory: MemoryStore, name: str) -> None:
    """A document or a log, as somebody else would."""
    memory._documents.pop(name, None)
    memory._logs.pop(name, None)
