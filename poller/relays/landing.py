"""Files that land once: each row of a poller is in one file, and in no other, whatever ends the process in between.

    read the ledger --> rows that are in a file are left out
                    --> the ledger names the new file and its rows (compare-and-swap, under the fencing token)
                    --> the file is created (`If-None-Match: *`)

A name is written once: by who lands the file, or by who seals it. Who finds a row in an entry whose file is missing
cannot know whether a stopped process will still create it. So it creates an empty file of that name first, which holds
no rows, and from then on the stopped process cannot: its rows are free to land under another name. If the file turns
out to be there, its rows are done. Either way there is one answer for every process, at once and for ever, and no file
is changed or removed: a reader may take each one when it appears.

The ledger is one JSON document per poller, changed by compare-and-swap alone. An entry says which rows one file is to
hold, and is written before that file. Rows are known by hashes of their keys (`poller.model.row_ids`), as in a fenced
sink's ledger, so it does not count how a batch is cut when it comes again. An entry is needed for as long as one of
its rows may come again: until a commit past its last row has been written, or while one of them is listed as aside or
as waiting for a person.

An owner whose token is lower than the ledger's writes nothing (`Fenced`). What it had named before, its successor finds
in the ledger.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Literal, Protocol, TypeAlias

from poller import forks
from poller.errors import Fenced, PollerError
from poller.handler.batch import Batch, Standing
from poller.handler.reports import RetryLater
from poller.model.row_ids import KEY_BYTES, id_of_hash
from poller.relays.blob_formats import empty_file

_TRIES = 20
"""Compare-and-swaps of one batch; lanes of one owner contend for the ledger, and nothing else does for long."""

Look: TypeAlias = Literal["landed", "sealed", "missing"]
"""What stands under a name."""
VERSION = 1


class Files(Protocol):
    """Where files land. May be used from several threads. Raises: RetryLater where no usable answer comes (what was to
    be written may be there), PollerError where it is refused."""

    def read(self, name: str) -> tuple[bytes, str] | None:
        """A document and its tag; None if there is none."""
        ...

    def write(self, name: str, content: bytes, tag: str | None) -> str | None:
        """Write a document in place of the version `tag`; None: create it. Its new tag; None where another version
        is there (it may be ours, of an answer that was lost)."""
        ...

    def create(self, name: str, content: bytes, *, sealed: bool, facts: Mapping[str, str]) -> bool:
        """Create a file; False if one has that name."""
        ...

    def look(self, name: str) -> Look:
        """What stands under a name."""
        ...

    def place(self, name: str) -> str:
        """What it is called in an error."""
        ...


@dataclass(frozen=True, slots=True)
class LandingRows:
    """Rows of a batch for one folder. `positions`: in the batch; `keys`: their hashes."""

    folder: str
    positions: tuple[int, ...]
    keys: tuple[bytes, ...]


class Format(Protocol):
    """How rows become the bytes of a file, with what is known of their columns."""

    suffix: str

    def columns(self, known: str) -> str:
        """What the ledger keeps of columns, with this batch's; `known`: what it holds."""
        ...

    def encode(self, positions: Sequence[int], columns: str) -> bytes:
        """A file with these rows of the batch."""
        ...


class LandedFiles:
    """The files of one poller. `name`: of its ledger."""

    def __init__(self, files: Files, name: str) -> None:
        self._files = files
        self._name = name
        self._ledger: Ledger | None = None
        self._tag: str | None = None
        self._sealed: set[str] = set()
        self._landed: set[str] = set()
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self._lock = Lock()

    def land(self, batch: Batch, wanted: Sequence[LandingRows], form: Format) -> int:
        """Bring these rows of the batch into files, but for those that are in one. How many were not.

        Raises: Fenced, and what `Files` raises.
        """
        fresh: set[bytes] = set()
        while True:
            with self._lock:
                begun, columns = self._begin(batch, wanted, form)
            fresh.update(key for rows, _ in begun for key in rows.keys)
            done = [self._create(name, rows, form, columns, batch) for rows, name in begun]
            if all(done):
                return len(fresh)

    def _create(self, name: str, rows: LandingRows, form: Format, columns: str, batch: Batch) -> bool:
        """Create the file that the ledger names. False: it was sealed in between, and the rows are still to be
        was written."""
        facts = {"rows": str(len(rows.positions)), "fencing_token": str(batch.fencing_token)}
        content = form.encode(rows.positions, columns)
        if not self._files.create(name, content, sealed=False, facts=facts) and self._files.look(name) != "landed":
            self._sealed.add(name)
            return False
        self._landed.add(name)
        return True

    # --- the ledger, under the lock ----------------------------------------------------------------------------------

    def _begin(
        self, batch: Batch, wanted: Sequence[LandingRows], form: Format
    ) -> tuple[list[tuple[LandingRows, str]], str]:
        """Name the files for what is not in any yet: rows and name of each, and the columns. Raises: as `land`."""
        standing = batch.standing
        for _ in range(_TRIES):
            ledger = self._known()
            self._check_token(ledger, batch)
            entries = needed(self._told(ledger.entries), standing)
            columns = form.columns(ledger.columns)
            files, entries = self._planned(batch, wanted, replace(ledger, entries=entries), form)
            if not files:
                return [], columns
            names = {name for _, name in files}
            mine = tuple(
                LandingEntry(name, standing.generation, standing.through, batch.fencing_token, frozenset(rows.keys))
                for rows, name in files
            )
            others = tuple(one for one in entries if one.name not in names)
            if self._swap(Ledger(batch.fencing_token, (*others, *mine), columns, secrets.token_hex(8))):
                self._landed.difference_update([one.name for one in others if one.landed])
                return files, columns
        raise RetryLater(f"{self._files.place(self._name)} is changed all the time", after="1s")

    def _planned(
        self, batch: Batch, wanted: Sequence[LandingRows], ledger: Ledger, form: Format
    ) -> tuple[list[tuple[LandingRows, str]], tuple[LandingEntry, ...]]:
        """The files to make, and the entries with what was found out about them."""
        entries = ledger.entries
        all_keys, generation = [key for rows in wanted for key in rows.keys], batch.standing.generation
        while True:
            files = self._named(batch, wanted, settled_keys(entries, generation), form)
            names = {name for _, name in files}
            doubtful = next((one for one in open_entries(entries, all_keys, generation) if one.name not in names), None)
            if doubtful is None:
                return files, entries
            landed = self._settle(doubtful, ledger.columns)
            changed = (replace(doubtful, landed=True),) if landed else ()
            entries = (*(one for one in entries if one is not doubtful), *changed)

    def _named(
        self, batch: Batch, wanted: Sequence[LandingRows], done: frozenset[bytes], form: Format
    ) -> list[tuple[LandingRows, str]]:
        files = []
        for rows in wanted:
            left = [(at, key) for at, key in zip(rows.positions, rows.keys, strict=True) if key not in done]
            if left:
                fresh = LandingRows(rows.folder, tuple(at for at, _ in left), tuple(key for _, key in left))
                plain = f"{rows.folder}/{file_name(batch.poller_name, batch.standing, fresh.keys)}"
                files.append((fresh, unsealed(plain, form.suffix, self._sealed)))
        return files

    def _settle(self, entry: LandingEntry, columns: str) -> bool:
        """True if the entry's file is there; where it is not, it never will be."""
        found = self._files.look(entry.name)
        if found == "missing":
            if self._files.create(entry.name, empty_file(entry.name, columns), sealed=True, facts={"rows": "0"}):
                found = "sealed"
            else:
                found = self._files.look(entry.name)
        if found == "sealed":
            self._sealed.add(entry.name)
        return found == "landed"

    def _told(self, entries: tuple[LandingEntry, ...]) -> tuple[LandingEntry, ...]:
        """With what this process knows of its own files."""
        return tuple(replace(one, landed=True) if one.name in self._landed else one for one in entries)

    def _check_token(self, ledger: Ledger, batch: Batch) -> None:
        if ledger.token > batch.fencing_token:
            raise Fenced(
                f"{batch.standing.app_name}/{batch.poller_name}: a later owner has written files here, under token "
                f"{ledger.token}; this one has {batch.fencing_token}.",
                fencing_token=batch.fencing_token,
                standing_token=ledger.token,
                next_step="Nothing is wrong if another worker has taken over. If the state document was made "
                f"again: poller reset-to-checkpoint {batch.poller_name} FILE --token-at-least {ledger.token}",
            )

    def _known(self) -> Ledger:
        if self._ledger is None:
            found = self._files.read(self._name)
            if found is None:
                self._ledger, self._tag = Ledger(), None
            else:
                self._ledger, self._tag = Ledger.decode(found[0], self._files.place(self._name)), found[1]
        return self._ledger

    def _swap(self, ledger: Ledger) -> bool:
        """Put this ledger in the place of the known one. False: another one is there, and is to be looked at."""
        before, self._ledger = self._tag, None  # not known, until the answer is
        tag = self._files.write(self._name, ledger.encode(), before)
        if tag is None:
            return self._known().write_id == ledger.write_id
        self._ledger, self._tag = ledger, tag
        return True


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
