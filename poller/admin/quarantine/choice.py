"""Which of the waiting rows a command is about: by id, by ordering key, or all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from poller.admin.quarantine.records import every_row
from poller.admin.refusals import WrongArgument, clean, shown
from poller.admin.wired import WiredPoller
from poller.errors import StateCorrupt
from poller.journal.quarantine.reader import RecordReader
from poller.journal.quarantine.record import is_id
from poller.model.document import State, WaitingRow

_BEGINNING = re.compile("[0-9a-f]{1,16}")
_NAMED = 3
"""So many of the rows that are meant by one beginning are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of the three ways to name rows.

    Attributes:
        ids: these rows, each by its id, or by how it begins if no other's begins so.
        key: the rows with these values in columns of the ordering key, as text. all: every row.
    """

    ids: Sequence[str] = ()
    key: Mapping[str, str] = field(default_factory=dict)
    all: bool = False


def check_choice(choice: Choice, poller: WiredPoller) -> None:
    """Return if it names rows in one way. Raises: WrongArgument."""
    if sum(map(bool, (choice.ids, choice.key, choice.all))) != 1:
        raise WrongArgument(
            "Say which rows are meant in one of three ways: by id, by ordering key, or all.",
            next_step=_which(poller.name),
        )
    for id_ in choice.ids:
        if not _BEGINNING.fullmatch(clean(id_, "id")):
            raise WrongArgument(
                f"id: {shown(id_)} is neither the id of a row, 16 hexadecimal digits, nor how one begins.",
                next_step=_which(poller.name),
            )
    columns = poller.options.ordering_key or poller.source.describe().pk_columns
    for name, value in choice.key.items():
        clean(value, "key")
        if clean(name, "key") not in columns:
            raise WrongArgument(
                f"key: {shown(name)} is not a column of the ordering key of {poller.name!r}.",
                next_step=f"Its columns: {', '.join(columns)}.",
            )


def with_whole_ids(choice: Choice, state: State, records: RecordReader, *, name: str) -> Choice:
    """The same choice with each id in full: of a row that the document lists, else of one that has a record.

    Raises: WrongArgument, if an id begins no row's or several rows'; StoreUnavailable, StoreDenied.
    """
    return replace(choice, ids=tuple(_whole(id_, every_row(state), records, name=name) for id_ in choice.ids))


def _whole(id_: str, listed: Mapping[str, WaitingRow], records: RecordReader, *, name: str) -> str:
    if is_id(id_):
        return id_
    found = [one for one in listed if one.startswith(id_)] or [one for one in records.ids() if one.startswith(id_)]
    if not found:
        raise WrongArgument(
            f"No row of {name!r} with an id that begins with {id_} waits, or ever did.", next_step=_which(name)
        )
    if len(found) > 1:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        some = ", ".join(found[:_NAMED])
        raise WrongArgument(
            f"{len(found)} rows of {name!r} have an id that begins with {id_}: {some}{more}.", next_step=_which(name)
        )
    return found[0]


def chosen(choice: Choice, state: State, records: RecordReader, *, name: str) -> list[WaitingRow]:
    """The rows that are meant, of those that the document lists, oldest first.

    Raises: WrongArgument, for an id that neither a row nor a record has; StoreUnavailable, StoreDenied.
    """
    listed = every_row(state)
    if choice.key:
        found = [row for row in listed.values() if row.key in _keys(choice.key, listed, records)]
    else:
        found = [row for row in listed.values() if choice.all or row.id in choice.ids]
    for id_ in choice.ids:
        if id_ not in listed and records.found(id_) is None:
            raise no_such_row(name, id_)
    return oldest_first(found)


def no_such_row(name: str, id_: str) -> WrongArgument:
    """The error for an id that neither a row of the poller nor a record has."""
    return WrongArgument(f"No row of {name!r} with the id {id_} waits, or ever did.", next_step=_which(name))


def _which(name: str) -> str:
    return f"Which rows wait: poller quarantine list {name}"


def oldest_first(rows: Sequence[WaitingRow]) -> list[WaitingRow]:
    """In the order in which they were passed, those of earlier resets first; what is not passed yet comes last."""
    return sorted(rows, key=lambda row: (row.generation, row.at is None, row.at or 0))


def _keys(wanted: Mapping[str, str], listed: Mapping[str, WaitingRow], records: RecordReader) -> set[str]:
    """The hashes of the ordering keys with these values, by the records of their rows: the document holds no values."""
    found = set()
    for id_, record in records.records(list(listed)).items():
        if isinstance(record, StateCorrupt):
            continue
        values = {name: "" if value is None else str(value) for name, value in record.ordering_key.items()}
        if all(values.get(name) == value for name, value in wanted.items()):
            found.add(listed[id_].key)
    return found
