"""`checkpoint import azure-functions-db`: the place of a poller of that library becomes ours.

Its state blob holds `checkpoint.cursor`, a list of the cursor column's value and the key columns' values in the order
of its `pk_columns`, and `batch_id`; it reads rows after that in the same order as we do, so the same cursor continues
it without a row twice or none. Where the list cannot be read so with certainty we begin at or after its first value:
rows of that one value may come again, and none is skipped.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy.engine import make_url

from poller.admin.changes import Base, Beginning, Change, Changes, there_or_first
from poller.admin.counts import number
from poller.admin.cursors import changed_source, is_foreign
from poller.admin.effects import Effect, measure, of_first
from poller.admin.recovery import Recovery
from poller.admin.refusals import WrongArgument, clean
from poller.errors import ConfigError, FieldDifference, LeaseHeld, SourceError, SourceUnavailable
from poller.model import transitions
from poller.model.changes import Transition
from poller.model.cursor import Cursor
from poller.model.document import Lease, State
from poller.model.document import OperatorChange as Record
from poller.model.limits import HIGHEST_TOKEN, LARGEST_BODY, LONGEST_NAME, read_json
from poller.model.when import span
from poller.ports import Found
from poller.sources import SqlSource
from poller.tick.watches import PENDING_CAP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from poller.config import SourceConfig

KIND = "import"
_SCALARS = (str, int, float)


@dataclass(frozen=True, slots=True)
class Foreign:
    """What that library's state blob says.

    Attributes:
        location: where it was read, for people. poller: its name there.
        fingerprint: of its source, made in its own way. parts: the cursor column's value and the key columns'.
        batch_id: the last batch. token: its fencing token. owner, expires_at: its lease. read_at: the moment it was
            read, by the store's clock where it gives one.
    """

    location: str
    poller: str
    fingerprint: str
    parts: tuple[Any, ...]
    batch_id: str | None
    token: int
    owner: str | None
    expires_at: datetime | None
    read_at: datetime

    def live_for(self) -> float:
        """The seconds for which its lease is live; 0 if it is not."""
        return 0.0 if self.expires_at is None else max(0.0, (self.expires_at - self.read_at).total_seconds())


def read_foreign(
    where: str | os.PathLike[str], *, connection: str, environ: Mapping[str, str], now: datetime
) -> Foreign:
    """The blob at an address, or a file.

    Raises: WrongArgument (there is none, or it is not one of that library's), ConfigError (not a blob URL), StoreError.
    """
    where = clean(os.fspath(where) if isinstance(where, os.PathLike) else where, "URL|FILE")
    if where.startswith(("http://", "https://")):
        from poller.stores import BlobStore

        store, name = BlobStore.from_address(where, connection=connection, environ=environ)
        try:
            found = store.read(name)
            location = store.locate(name)
        finally:
            store.close()
        if not isinstance(found, Found):
            raise WrongArgument(f"There is no {location}.", next_step="Its name there is state/POLLER.json.")
        return _parsed(found.body, location, found.server_time or now)
    try:
        with Path(where).open("rb") as file:
            return _parsed(file.read(LARGEST_BODY + 1), f"file {where}", now)
    except OSError as error:
        raise WrongArgument(f"The file {where} cannot be read: {error.strerror or error}.") from None


def _parsed(body: bytes, location: str, now: datetime) -> Foreign:
    try:
        data = read_json(body)
        checkpoint, lease = data["checkpoint"], data.get("lease") or {}
        cursor, name = checkpoint.get("cursor"), data["poller_name"]
        expires = lease.get("expires_at")
        expires_at = datetime.fromisoformat(expires) if expires else None
        token = lease.get("fencing_token", 0)
        version = data["version"]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise _not_theirs(location) from None
    if isinstance(cursor, dict):
        raise WrongArgument(
            f"The {location} is a state document of poller, not of azure-functions-db.",
            next_step="Use: poller reset-to-checkpoint NAME FILE, or poller checkpoint clone NAME NEW_NAME.",
        )
    if version != 1 or not isinstance(name, str) or isinstance(token, bool) or not isinstance(token, int) or token < 0:
        raise _not_theirs(location)
    if token > HIGHEST_TOKEN:
        raise WrongArgument(
            f"The {location} has the fencing token {str(token)[:40]}; the highest that can be gone on from is "
            f"{HIGHEST_TOKEN}.",
            next_step="Nothing was changed. See that it is the blob that azure-functions-db wrote.",
        )
    parts = tuple(cursor) if isinstance(cursor, list) else (cursor,)
    if not parts or isinstance(parts[0], bool) or not isinstance(parts[0], _SCALARS):
        raise WrongArgument(
            f"The {location} holds no cursor: that poller has delivered nothing yet, or keeps its place elsewhere.",
            next_step="There is nothing to take over; set `start_from` and run the poller.",
        )
    batch = checkpoint.get("batch_id")
    return Foreign(
        location=location,
        poller=name,
        fingerprint=str(data.get("source_fingerprint") or ""),
        parts=parts,
        batch_id=batch if isinstance(batch, str) and len(batch) <= LONGEST_NAME else None,
        token=token,
        owner=lease.get("owner_id") if isinstance(lease.get("owner_id"), str) else None,
        expires_at=expires_at if expires_at is None or expires_at.tzinfo else expires_at.replace(tzinfo=UTC),
        read_at=now,
    )


def _not_theirs(location: str) -> WrongArgument:
    return WrongArgument(
        f"The {location} is not a state blob of azure-functions-db.",
        next_step="Its blobs are named state/POLLER.json, in the container that its BlobCheckpointStore was given.",
    )


# --- its cursor as ours -----------------------------------------------------------------------------------------------


def convert(foreign: Foreign, source: SqlSource, options: SourceConfig) -> tuple[Cursor, list[str]]:
    """Its place as a cursor of the configured source, and what a person should know of it.

    Raises: WrongArgument, if the value does not fit the configured column; SourceError.
    """
    order = key_order(foreign.fingerprint, options)
    value, *keys = foreign.parts
    why = _uncertain(keys, options.pk_columns, order)
    source.lag(None, cap=1)  # a table that cannot be read is no fault of the blob's
    pk = None if why else {name: str(key) for name, key in zip(options.pk_columns, keys, strict=True)}
    try:
        cursor = source.parse_cursor(str(value), pk)
        source.count_between(cursor, cursor, cap=1)
    except SourceUnavailable:
        raise
    except (SourceError, OverflowError) as error:
        why = error.message if isinstance(error, SourceError) else "a value is out of its column's range"
        raise WrongArgument(
            f"The cursor in the {foreign.location} does not fit the configured source: {why}",
            next_step="Nothing was changed. Configure the table, cursor_column and pk_columns that it was made with.",
        ) from None
    notes = []
    if why:
        notes.append(f"It begins at or after {cursor.value}, because {why}: rows of that value may come again.")
    if order is None:
        notes.append(
            "Whether its source is the configured one is not known: its fingerprint covers user, driver and options. "
            "Make sure that table, cursor column, key and filter are the same."
        )
    return cursor, notes


def _uncertain(keys: list[Any], pk_columns: tuple[str, ...], order: tuple[str, ...] | None) -> str | None:
    """Why the key's values cannot be used, if they cannot."""
    if not keys:
        return "its cursor holds no key"
    if len(keys) != len(pk_columns):
        raise WrongArgument(
            f"Its cursor holds {len(keys)} key values, and pk_columns names {', '.join(pk_columns)}.",
            next_step="Nothing was changed. Configure the pk_columns that it was made with, in their order.",
        )
    if any(isinstance(key, bool) or not isinstance(key, (str, int)) for key in keys):
        return "its key holds a value that is neither text nor a whole number"
    if order is not None and order != pk_columns:
        return f"its key is ordered by {', '.join(order)}"
    if order is None and len(pk_columns) > 1:
        return "the order of its key columns is not known"
    return None


def key_order(fingerprint: str, options: SourceConfig) -> tuple[str, ...] | None:
    """In which order that library was given the key columns, if its fingerprint is that of the configured source;
    None if it is not, or where the configuration says the same in another way."""
    try:
        url = str(make_url(options.url.get_secret_value()).set(password=None))
    except Exception:  # noqa: BLE001 - an address that it could not have read either
        return None
    for order in itertools.islice(itertools.permutations(options.pk_columns), 120):
        described: dict[str, object] = {
            "url": url,
            "schema": options.schema_name,
            "table": options.table,
            "query": options.query,
            "cursor_column": options.cursor_column,
            "pk_columns": list(order),
            "where": options.filter,
            "parameters": {},
            "strategy": "cursor",
            "operation_mode": "upsert_only",
            "cursor_types": [],
        }
        if hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest() == fingerprint:
            return order
    return None


# --- the change -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Import(Change):
    """Make the place of that library's poller the checkpoint of a poller of ours.

    Attributes:
        foreign: what `read_foreign` found. options: of the source, as it is configured.
        overwrite: also if there is a checkpoint; its token stays, and grows.
        cursor, said: its place as a cursor of ours, and what a person should know of it, once the source was asked.
    """

    foreign: Foreign
    options: SourceConfig
    overwrite: bool = False
    cursor: Cursor | None = None
    said: tuple[str, ...] = ()

    kind = KIND

    def looked(self, on: Changes) -> tuple[Import, Base]:
        """Raises: WrongArgument, if the value does not fit the configured column; LeaseHeld (that library is at work),
        Refused (there is a checkpoint already), StoreError, SourceError."""
        if not isinstance(on.poller.source, SqlSource):
            raise ConfigError(
                f"source: {type(on.poller.source).__name__} is not a SqlSource; azure-functions-db reads only tables "
                "and queries.",
                key="source",
            )
        cursor, said = convert(self.foreign, on.poller.source, self.options)
        foreign, left = self.foreign, self.foreign.live_for()
        if left and not on.request.break_lease:
            raise LeaseHeld(
                f"azure-functions-db is at work on {foreign.poller!r}: its lease is live for up to {span(left)} more.",
                owner_id=foreign.owner,
                fencing_token=foreign.token,
                expires_in_seconds=left,
                next_step="Nothing was changed. Stop that function app first, then import.",
            )
        change = replace(self, cursor=cursor, said=tuple(said))
        return change, there_or_first(on, overwrite=self.overwrite)

    def transition(self, on: Changes) -> Transition:
        def imported(state: State, record: Record, now: datetime) -> State:
            moved = transitions.bind(transitions.reset(state, cursor=self.cursor, change=record, now=now), on.source)
            checkpoint = moved.checkpoint.model_copy(
                update={
                    "last_successful_batch_id": self.foreign.batch_id,
                    "metadata": {"imported_from": "azure-functions-db"},
                }
            )
            # Sinks that refuse lower tokens must take ours: it goes on above theirs.
            token = max(moved.lease.fencing_token, self.foreign.token + 1)
            lease = moved.lease.model_copy(update={"fencing_token": token})
            return moved.model_copy(update={"checkpoint": checkpoint, "lease": lease})

        return imported

    def effect(self, on: Changes, state: State) -> Effect:
        foreign = is_foreign(state, on.source)
        return measure(on.poller.source, state.checkpoint.cursor, self.cursor, foreign=foreign)

    def differences(self, on: Changes, state: State) -> Sequence[FieldDifference]:
        return changed_source(on.source)(state)

    def notes(self, on: Changes, state: State) -> Sequence[str]:
        waiting = cast("SqlSource", on.poller.source).lag(self.cursor, cap=PENDING_CAP)
        return [
            f"From the {self.foreign.location}, poller {self.foreign.poller!r}.",
            f"Rows that wait behind it: {number(waiting.pending, waiting.pending_capped)}.",
            *self.said,
            "Nothing keeps that library from going on: make sure that its function app is stopped.",
        ]

    def begin(self, on: Changes, recovery: Recovery) -> Beginning:
        lease = Lease(fencing_token=recovery.highest_token, released_at=on.operator.file.clock.now())
        effect, keep = of_first(on.poller.source, self.cursor), bool(recovery.highest_token)
        start = State(poller_name=on.name, lease=lease)
        return Beginning(start, self.transition(on), self.notes(on, start), effect, keep=keep)
