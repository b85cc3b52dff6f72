"""The changes of a poller by operators, as its audit trail and its document tell them, and what takes each back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from poller.admin.changes import Change, Changes, Undo
from poller.admin.editor import Operator
from poller.errors import StateCorrupt
from poller.model.changes import summary
from poller.model.document import State, decode
from poller.model.result import ResultModel
from poller.model.when import parsed
from poller.ports import Found

SEARCHED = 500
"""Among so many of the newest records of the audit trail."""
_BY_KIND: Mapping[str, Undo] = {
    "pause": "resume",
    "cancel": "resume",
    "reset-to-beginning": "restore",
    "reset-to-cursor": "restore",
    "reset-to-checkpoint": "restore",
    "rebind": "restore",
    "clone-checkpoint": "restore",
    "import": "restore",
    "quarantine discard": "relist",
}
"""Of records that do not say it themselves: of earlier versions, and of a first document."""
_KINDS = frozenset({*_BY_KIND, "resume", "quarantine add", "undo"})
_KNOWN: Mapping[object, Undo] = {"pause": "pause", "resume": "resume", "restore": "restore", "relist": "relist"}
_NEAR = timedelta(seconds=30)
"""A backup was made at most so long before its change."""


@dataclass(frozen=True)
class ChangeRecord:
    """One change. Its line may be of any program: nothing of it is trusted but its form.

    Attributes:
        undo: what takes it back; None if nothing does. backup: what it says of the backup of what it replaced.
        undid: the id of the change that it took back.
    """

    id: str
    kind: str
    at: str | None = None
    by: str | None = None
    reason: str | None = None
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    undo: Undo | None = None
    backup: str | None = None
    undid: str | None = None

    @property
    def moment(self) -> datetime | None:
        """When it was made; None if that is not a time."""
        return None if self.at is None else parsed(self.at)

    def rows(self, which: str) -> list[str]:
        """The ids of rows that it `unlisted` or `listed`."""
        ids = self.after.get(which)
        return [one for one in ids if isinstance(one, str)] if isinstance(ids, list) else []


class UndoableChange(ResultModel):
    """A change of one poller, as `poller undo --list` shows it."""

    id: str
    kind: str
    at: str | None
    by: str | None
    reason: str | None
    undo: str | None
    """What takes it back: "resume", "pause", "restore" (of `backup`) or "relist"; null if nothing does."""
    backup: str | None
    """The name in the store of the backup of what it replaced."""
    undone: bool
    """It was taken back already."""


class UndoListOutput(ResultModel):
    """`poller undo --list --json`."""

    name: str
    app_name: str
    document: str
    changes: list[UndoableChange]
    """Newest last."""
    backups: list[str]
    """Names in the store, newest last."""


def list_changes(operator: Operator) -> UndoListOutput:
    """The changes of a poller that its trail still holds, and its backups. Raises: StoreUnavailable, StoreDenied."""
    records, backups, file = records_of_changes(operator), sorted(operator.store.names(operator.backups)), operator.file
    undone = taken_back(records)
    changes = [
        UndoableChange(
            id=one.id,
            kind=one.kind,
            at=one.at,
            by=one.by,
            reason=one.reason,
            undo=one.undo,
            backup=backup_of(operator, one, backups) if one.undo == "restore" else None,
            undone=one.id in undone,
        )
        for one in records
    ]
    return UndoListOutput(
        name=file.poller_name, app_name=file.app_name, document=file.location, changes=changes, backups=backups
    )


def records_of_changes(operator: Operator) -> list[ChangeRecord]:
    """Newest last; the newest may be in the document alone. Raises: StoreUnavailable, StoreDenied."""
    entries = operator.audit.entries(limit=SEARCHED)
    try:
        copy = operator.file.read()
    except StateCorrupt:
        copy = None
    last = None if copy is None else copy.state.control.last_change
    if last is not None:  # in full: a long line of the trail leaves rows out
        entries = [*(entry for entry in entries if entry.get("id") != last.id), last.record()]
    return [_record(entry) for entry in entries if str(entry.get("kind")) in _KINDS]


def taken_back(records: Sequence[ChangeRecord]) -> frozenset[str]:
    """Ids of changes that are taken back: by an undo that was not taken back itself."""
    undone: set[str] = set()
    for record in reversed(records):
        if record.undid and record.id not in undone:
            undone.add(record.undid)
    return frozenset(undone)


def backup_of(operator: Operator, record: ChangeRecord, names: Collection[str]) -> str | None:
    """The backup of what it replaced: as it says itself; else the newest one made shortly before it of a document that
    is as the record says. `names`: of the poller's backups; what is none of them is never read."""
    if record.backup is not None:
        folder, _, _ = record.backup.rpartition("/")
        ours = f"{folder}/" == operator.backups and _made_at(record.backup) is not None
        return record.backup if ours and record.backup in names else None
    at = record.moment
    for name in sorted(names, reverse=True) if at is not None and record.before else ():
        made = _made_at(name)
        if at is None or made is None or abs(at - made) > _NEAR:
            continue
        found = operator.store.read(name)
        try:
            state = decode(found.body, location=name) if isinstance(found, Found) else None
        except StateCorrupt:
            continue
        if state is not None and all(record.before.get(key) == value for key, value in summary(state).items()):
            return name
    return None


def _made_at(backup: str) -> datetime | None:
    try:
        return datetime.strptime(f"{backup.rpartition('/')[2]}+0000", "%Y%m%dT%H%M%S_%fZ.json%z")
    except ValueError:
        return None


def _record(entry: Mapping[str, Any]) -> ChangeRecord:
    def text(key: str) -> str | None:
        value = entry.get(key)
        return None if value is None else str(value)

    def part(key: str) -> Mapping[str, Any]:
        value = entry.get(key)
        return value if isinstance(value, dict) else {}

    kind, said = str(entry.get("kind")), entry.get("undo")
    undo = _KNOWN.get(said) if isinstance(said, str) else _BY_KIND.get(kind)
    if undo is None and kind == "resume" and part("before").get("paused") is True:
        undo = "pause"
    return ChangeRecord(
        id=text("id") or "",
        kind=kind,
        at=text("at"),
        by=text("by"),
        reason=text("reason"),
        before=part("before"),
        after=part("after"),
        undo=undo,
        backup=text("backup"),
        undid=text("undid"),
    )


@dataclass(frozen=True)
class Undoing(Change):
    """A change that takes another one back.

    Attributes:
        undid: the id of the other. said: which it is, for people.
        newest: the id of the newest change when it was chosen: with a later one, the trail may show another undo.
    """

    undid: str = ""
    said: str = ""
    newest: str = ""

    kind = "undo"

    def nothing(self, on: Changes, state: State) -> str | None:
        last = state.control.last_change
        if last is not None and last.undid == self.undid:
            return f"{last.by} has taken it back already."
        later = last is not None and last.id != self.newest
        if later and self.undid in taken_back(records_of_changes(on.operator)):
            return "It was taken back already."
        return super().nothing(on, state)

    def notes(self, on: Changes, state: State) -> Sequence[str]:
        return [self.said, *super().notes(on, state)]
