"""The record of one row that was passed without success: `quarantine/{app}/{poller}/{id}.json` (failures, "The record
and the commands").

What the state document lists counts; the record keeps the row, so that it can be tried again, and says what happened.
It is personal data. Others may be able to write the container, so a record is read within limits, and fields that are
not known here survive every write.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from poller.errors import StateCorrupt, StoreError
from poller.journal.quarantine.values import from_json
from poller.model.aside import RowFacts
from poller.model.cursor import Cursor, KeyValue
from poller.model.document import WRITE_IDS_KEPT, Count, DeliveryError, Name, Reason
from poller.model.limits import LARGEST_BODY, LONGEST_CURSOR, NotBoundedJson, read_json
from poller.model.stamps import Stamp
from poller.ports import Row

VERSION = 1
OPENINGS_KEPT = 10
"""So many earlier openings are kept, the newest ones."""
ROOM = 64 * 1024
"""Bytes that a new record leaves free, so that what happens to it later has a place in it."""

Waiting: TypeAlias = Literal["aside", "pending"]
"""It is retried automatically; it waits for a person."""
Settled: TypeAlias = Literal["delivered", "superseded", "replayed", "discarded"]
"""Delivered by a later try; a newer version of the row took its place; delivered, or given up, by a person."""
Status: TypeAlias = Waiting | Settled
WAITING: tuple[Status, ...] = ("aside", "pending")

_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)


class _RecordPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class Act(_RecordPart):
    """Who did something, when on the store's clock, and why; `by` None: the poller itself."""

    by: Name | None = None
    at: Stamp | None = None
    reason: Reason | None = None


class Opening(_RecordPart):
    """One time that the row was passed without success, and how that ended.

    Attributes:
        status: the last one of that time. The others: as in the record.
    """

    status: Status
    generation: Count = 0
    fencing_token: Count = 0
    batch_id: Name | None = None
    opened: Act = Field(default_factory=Act)
    failures: Count = 0
    strikes: Count = 0
    error: DeliveryError | None = None
    settled: Act | None = None


class QuarantineRecord(_RecordPart):
    """One version of a row that was passed without success.

    Attributes:
        id, pk, key: hashes of the version, of the primary key and of the ordering key, as the state document has them.
        row_key: table, key and cursor text: what `batch.key(row)` says. cursor: where it stands.
        ordering_key: the ordering key's columns and their values, as text or integer.
        row: its columns; what JSON does not have is text or marked. kinds: the type of that, by column.
        status: `aside` and `pending` as the document lists it; or how it was settled.
        behind: it was never tried: it follows an earlier row of its ordering key.
        failures, strikes: as the document counts them. error: of its last failure.
        batch_id, fencing_token, generation: of the batch, the tenure and the checkpoint at which it was set aside.
        opened: who set it aside, when and why. created_at, updated_at: of the record.
        settled: who settled it, when and why; None while it waits.
        openings: earlier times that it was set aside, the newest last.
        write_ids: the last writes of the record.
    """

    version: Literal[1] = 1
    app_name: Name
    poller_name: Name
    id: Name
    pk: Name
    key: Name
    row_key: Annotated[str, Field(max_length=LONGEST_CURSOR)] = ""
    cursor: Cursor
    ordering_key: dict[str, KeyValue | None] = Field(default_factory=dict)
    row: dict[str, Any]
    kinds: dict[str, str] = Field(default_factory=dict)
    status: Status
    behind: bool = False
    failures: Count = 0
    strikes: Count = 0
    error: DeliveryError | None = None
    batch_id: Name | None = None
    fencing_token: Count = 0
    generation: Count = 0
    opened: Act = Field(default_factory=Act)
    created_at: Stamp | None = None
    updated_at: Stamp | None = None
    settled: Act | None = None
    openings: tuple[Opening, ...] = ()
    write_ids: tuple[Name, ...] = ()

    @property
    def waits(self) -> bool:
        """True if it is not settled."""
        return self.status in WAITING

    def facts(self) -> RowFacts:
        """What the rules need to know of the row."""
        return RowFacts(self.id, self.pk, self.key, self.cursor)

    def values(self) -> Row:
        """The row, for another try: with the values that the source gave, as far as `poller.journal.quarantine.values`
        says so. A new dict each time. Raises: StateCorrupt."""
        try:
            return from_json(self.row, self.kinds)
        except ValueError:
            raise StateCorrupt(
                f"The record {self.id} of {self.poller_name!r} holds a value that is not of its kind: it was changed.",
                document=name_of(self.app_name, self.poller_name, self.id),
                next_step="Hand over the row as the table has it now, or discard the record.",
            ) from None

    def comes_back(self) -> bool:
        """True if the row can be handed over from here."""
        try:
            self.values()
        except StateCorrupt:
            return False
        return True

    def past(self) -> tuple[Opening, ...]:
        """The openings as they are once this one is over."""
        ended = Opening(**{name: getattr(self, name) for name in Opening.model_fields})
        return (*self.openings, ended)[-OPENINGS_KEPT:]

    def with_write_id(self, write_id: str) -> QuarantineRecord:
        """The record with one more write id, the newest last; only the last few are kept."""
        return self.model_copy(update={"write_ids": (*self.write_ids, write_id)[-WRITE_IDS_KEPT:]})


def is_id(text: str) -> bool:
    """True if a text is a row's id. Others, which a document or a person may hold, are not part of a name."""
    return _ID.fullmatch(text) is not None


def name_of(app_name: str, poller_name: str, id_: str) -> str:
    """The record's name in the store."""
    return f"quarantine/{app_name}/{poller_name}/{id_}.json"


def encode(record: QuarantineRecord, *, limit: int = LARGEST_BODY) -> bytes | None:
    """The record's bytes: UTF-8 JSON, indented, since people open it. Where it would be too large, without what only
    tells its past, and without other programs' fields; None if it is too large even so."""
    bare = record.model_copy(update={"openings": ()})
    own = {name: getattr(bare, name) for name in QuarantineRecord.model_fields}
    for smaller in (record, bare, QuarantineRecord.model_construct(**own)):
        body = json.dumps(smaller.model_dump(mode="json"), indent=2, ensure_ascii=False).encode()
        if len(body) <= limit:
            return body
    return None


class NewerRecord(StateCorrupt):
    """The record was written by a newer version of this library."""


def decode(body: bytes, *, app_name: str, poller_name: str, id_: str, location: str) -> QuarantineRecord:
    """Read a record. Raises: NewerRecord, StateCorrupt (not a record, beyond the limits, another row's); none of them
    quotes it."""
    document = name_of(app_name, poller_name, id_)

    def corrupt(what: str) -> StateCorrupt:
        step = "It was left as it is. If the row still waits, hand over the table's version of it, or discard it."
        return StateCorrupt(f"The {location} {what}.", document=document, next_step=step)

    try:
        data = read_json(body)
    except NotBoundedJson as error:
        raise corrupt(str(error)) from None
    if not isinstance(data, dict):
        raise corrupt("is JSON, but not a record of a row")
    version = data.get("version")
    if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
        raise NewerRecord(
            f"The {location} has version {version}; this poller reads version {VERSION}.",
            document=document,
            next_step="Upgrade poller on this machine; the record was left as it is.",
        )
    try:
        record = QuarantineRecord.model_validate(data)
        encode(record)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:100]
        raise corrupt(f"is not a readable record: {where} ({first['type']})") from None
    except (ValueError, OverflowError, RecursionError, StoreError) as error:
        raise corrupt(f"holds what cannot be written back ({type(error).__name__})") from None
    if (record.app_name, record.poller_name, record.id) != (app_name, poller_name, id_):
        raise corrupt("is the record of another row")
    return record
