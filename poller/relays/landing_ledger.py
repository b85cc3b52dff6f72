"""What the blob relay remembers of files that it has begun, and what follows for a batch: pure rules.

The ledger is one JSON document per poller, changed by compare-and-swap alone. An entry says which rows one file is to
hold, and is written before that file. Rows are known by hashes of their keys (`poller.model.row_ids`), as in a fenced
sink's ledger, so it does not count how a batch is cut when it comes again. An entry is needed for as long as one of
its rows may come again: until a commit past its last row has been written, or while one of them is listed as aside or
as waiting for a person.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from poller.errors import PollerError
from poller.handler.batch import Standing
from poller.model.row_ids import KEY_BYTES, id_of_hash

VERSION = 1


@dataclass(frozen=True, slots=True)
class LandingEntry:
    """A file that was begun.

    Attributes:
        name: of the blob. generation, through: as in `Standing`. token: of the tenure that began it.
        keys: hashes of the rows in it that may come again. landed: whether the file is known to be there.
    """

    name: str
    generation: int
    through: int
    token: int
    keys: frozenset[bytes]
    landed: bool = False


@dataclass(frozen=True, slots=True)
class Ledger:
    """The document. `token`: the highest that has written here; `columns`: the types of a Parquet file's columns, as
    the format keeps them; `write_id`: of the last write."""

    token: int = 0
    entries: tuple[LandingEntry, ...] = ()
    columns: str = ""
    write_id: str = ""

    def encode(self) -> bytes:
        """The document's bytes."""
        listed = [
            {
                "name": one.name,
                "generation": one.generation,
                "through": one.through,
                "fencing_token": one.token,
                "landed": one.landed,
                "keys": base64.b64encode(b"".join(sorted(one.keys))).decode(),
            }
            for one in self.entries
        ]
        document = {"version": VERSION, "fencing_token": self.token, "write_id": self.write_id, "entries": listed}
        return json.dumps(document | ({"columns": self.columns} if self.columns else {})).encode()

    @classmethod
    def decode(cls, content: bytes, place: str) -> Ledger:
        """The ledger in a document's bytes. Raises: PollerError, naming `place`, if they are something else."""
        try:
            document = json.loads(content)
            if document["version"] != VERSION:
                raise ValueError("another version")
            return cls(
                token=int(document["fencing_token"]),
                entries=tuple(_entry(one) for one in document["entries"]),
                columns=str(document.get("columns", "")),
                write_id=str(document["write_id"]),
            )
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise PollerError(
                f"{place} is not a ledger of the blob relay that this version can read.",
                next_step="Restore the ledger that was there. Without it nothing is lost, but the last batches may "
                "be twice: then delete it, and compare the newest files.",
            ) from None


def _entry(one: Mapping[str, Any]) -> LandingEntry:
    packed = base64.b64decode(one["keys"], validate=True)
    if len(packed) % KEY_BYTES:
        raise ValueError("keys are cut")
    return LandingEntry(
        name=str(one["name"]),
        generation=int(one["generation"]),
        through=int(one["through"]),
        token=int(one["fencing_token"]),
        keys=frozenset(packed[begin : begin + KEY_BYTES] for begin in range(0, len(packed), KEY_BYTES)),
        landed=bool(one["landed"]),
    )


def needed(entries: Iterable[LandingEntry], standing: Standing) -> tuple[LandingEntry, ...]:
    """The entries that a batch which is there leaves in the ledger."""
    kept = []
    for one in entries:
        if one.generation < standing.generation:
            continue  # applied before a reset: under this generation the rows are to come again
        if one.generation == standing.generation and one.through <= standing.settled:
            held = frozenset(key for key in one.keys if id_of_hash(key) in standing.held) if standing.held else None
            if not held:
                continue
            kept.append(replace(one, keys=held))
        else:
            kept.append(one)
    return tuple(kept)


def settled_keys(entries: Iterable[LandingEntry], generation: int) -> frozenset[bytes]:
    """The rows that are known to be in a file, under this generation."""
    return frozenset(key for one in entries if one.landed and one.generation == generation for key in one.keys)


def open_entries(entries: Iterable[LandingEntry], keys: Collection[bytes], generation: int) -> tuple[LandingEntry, ...]:
    """The entries with one of these rows whose file is not known yet to be there."""
    wanted = frozenset(keys)
    return tuple(
        one for one in entries if not one.landed and one.generation == generation and not wanted.isdisjoint(one.keys)
    )


def file_name(poller_name: str, standing: Standing, keys: Sequence[bytes]) -> str:
    """The name of the file with these rows: a pure function of them and of where their batch stands, so that a batch
    that comes again as it was has the name that it had. In order of names the files are in order of delivery."""
    owner = f"{standing.app_name}/{poller_name}/{standing.shard}\n".encode()
    digest = hashlib.sha256(owner + b"".join(keys)).hexdigest()[:16]
    return f"{standing.generation:04}-{standing.through:012}-{digest}"


def unsealed(name: str, suffix: str, sealed: Collection[str]) -> str:
    """The file's whole name, the next one where that was sealed."""
    whole, count = f"{name}{suffix}", 1
    while whole in sealed:
        count += 1
        whole = f"{name}-{count}{suffix}"
    return whole
