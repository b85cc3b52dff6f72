"""`undo`: an operator's change is taken back, by what its record says (`Change.undo`).

A pause or cancel is resumed, and what was resumed from a pause is paused again; a reset, a rebind or an overwritten
checkpoint goes back to the backup of what it replaced; rows that were given up wait again, and a row that was set aside
is read again. Rows that lie between count as delivered: they were delivered, or knowingly skipped, before the change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from poller.admin.change import SEARCHED, Change, Undo, Undoing, taken_back
from poller.admin.changes import Changes
from poller.admin.editor import Operator
from poller.admin.pausing import Pause, Resume
from poller.admin.quarantine.discard import Discard
from poller.admin.quarantine.undo import Relist, Unlist
from poller.admin.refusals import Refused, WrongArgument, clean, shown
from poller.admin.restore import Restore, find_checkpoint
from poller.errors import StateCorrupt
from poller.model.changes import summary
from poller.model.document import State, decode
from poller.model.escape import cut
from poller.model.result import ResultModel
from poller.model.when import moment, parsed
from poller.ports import Found

MOST_SHOWN = 5
"""So many later changes are named."""
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
_NEAR = timedelta(seconds=30)
"""A backup was made at most so long before its change."""


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
    """Of what it replaced: its name in the store."""
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
    records = _records(operator)
    undone = taken_back(records)
    file = operator.file
    changes = [
        UndoableChange(
            id=_text(one, "id") or "",
            kind=_text(one, "kind") or "",
            at=_text(one, "at"),
            by=_text(one, "by"),
            reason=_text(one, "reason"),
            undo=_undo_of(one),
            backup=_backup_of(operator, one) if _undo_of(one) == "restore" else None,
            undone=one.get("id") in undone,
        )
        for one in records
    ]
    backups = sorted(operator.store.names(operator.backups))
    return UndoListOutput(
        name=file.poller_name, app_name=file.app_name, document=file.location, changes=changes, backups=backups
    )


def undo_of(on: Changes, change: str | None = None) -> Change:
    """The change that takes back the one whose id begins with `change`; default: the newest that was not taken back.

    Raises: WrongArgument (there is none, or several), Refused (it cannot be taken back), StoreUnavailable, StoreDenied.
    """
    name, records = on.name, _records(on.operator)
    undone = taken_back(records)
    if change is not None:
        wanted = clean(change, "change").strip().lower()
        found = [one for one in records if wanted and str(one.get("id", "")).startswith(wanted)]
        if len(found) != 1:
            what = "names several changes" if found else "names no change"
            raise WrongArgument(
                f"change: {shown(change)} {what} of {name!r}.", next_step=f"Its changes: poller undo {name} --list"
            )
    else:
        found = [one for one in records if one.get("kind") != "undo" and one.get("id") not in undone]
        if not found:
            raise WrongArgument(
                f"There is no change of {name!r} to take back.", next_step=f"What happened: poller history {name}"
            )
    later = records[records.index(found[-1]) + 1 :]
    stays = [f"{one.get('kind')} {str(one.get('id'))[:8]}" for one in later if one.get("id") not in undone]
    since = f" What was changed since then stays: {', '.join(map(cut, stays[-MOST_SHOWN:]))}." if stays else ""
    chosen = _taking_back(on, found[-1], undone, since)
    return replace(chosen, newest=str(records[-1]["id"]))


def _taking_back(on: Changes, record: Mapping[str, Any], undone: frozenset[str], since: str) -> Undoing:
    """`since`: a sentence on later changes, for people. Raises: Refused."""
    id_, kind, undo = str(record.get("id")), str(record.get("kind")), _undo_of(record)
    at, by = parsed(_text(record, "at") or ""), cut(_text(record, "by") or "unknown")
    why = _text(record, "reason")
    when, because = f" of {moment(at)}" if at else "", f": {cut(why).rstrip('.')}" if why else ""
    said = f"It takes back {kind} {id_[:8]}{when}, by {by}{because}.{since}"
    if id_ in undone:
        raise _refused(on, record, "it was taken back already")
    match undo:
        case "resume":
            return UndoByResume(undid=id_, said=said)
        case "pause":
            return UndoByPause(undid=id_, said=said)
        case "restore":
            backup = _backup_of(on.operator, record)
            if backup is None:
                raise _refused(on, record, "no backup of what it replaced is left, or there was nothing before it")
            return UndoByRestore(find_checkpoint(on.poller, backup), undid=id_, said=said, backup=backup)
        case "relist":
            ids = _ids(record, "unlisted" if kind == Discard.kind else "listed")
            if not ids:
                raise _refused(on, record, "its record names no row")
            if kind == Discard.kind:
                return Relist(ids=ids, undid=id_, said=said)
            return Unlist(ids=ids, undid=id_, said=said)
    before = record.get("before")
    if kind == "resume" and isinstance(before, dict) and before.get("halted"):
        raise _refused(on, record, "a halt cannot be made again: the batch is tried anew, and halts if it fails")
    raise _refused(on, record, "there is nothing that takes it back")


def _refused(on: Changes, record: Mapping[str, Any], why: str) -> Refused:
    kind, id_ = record.get("kind"), str(record.get("id"))[:8]
    return Refused(
        f"{on.name}: {kind} {id_} cannot be taken back: {why}. Nothing was changed.",
        next_step=f"Other changes, and backups: poller undo {on.name} --list",
    )


# --- the records ------------------------------------------------------------------------------------------------------


def _records(operator: Operator) -> list[dict[str, Any]]:
    """An operator's changes, newest last; the newest may stand in the document alone."""
    entries = operator.audit.entries(limit=SEARCHED)
    try:
        copy = operator.file.read()
    except StateCorrupt:
        copy = None
    last = None if copy is None else copy.state.control.last_change
    if last is not None:  # in full: a long line of the trail leaves rows out
        entries = [*(entry for entry in entries if entry.get("id") != last.id), last.record()]
    return [entry for entry in entries if _text(entry, "kind") in _KINDS and isinstance(entry.get("id"), str)]


def _undo_of(record: Mapping[str, Any]) -> Undo | None:
    """What takes it back, by what it says, or by its kind."""
    known: dict[object, Undo] = {"pause": "pause", "resume": "resume", "restore": "restore", "relist": "relist"}
    said = record.get("undo")
    if isinstance(said, str) and said in known:
        return known[said]
    kind, before = str(record.get("kind")), record.get("before")
    if kind == "resume":
        return "pause" if isinstance(before, dict) and before.get("paused") else None
    return _BY_KIND.get(kind)


def _backup_of(operator: Operator, record: Mapping[str, Any]) -> str | None:
    """Of what it replaced: as it says itself; else the newest one made shortly before it of a document that is as the
    record says."""
    named = record.get("backup")
    if isinstance(named, str):
        own, _, name = named.rpartition("/")  # who may append to the trail can name any document
        known = f"{own}/" == operator.backups and _made_at(name, like=operator.file.clock.now()) is not None
        return named if known and isinstance(operator.store.read(named), Found) else None
    at, before = parsed(_text(record, "at") or ""), record.get("before")
    if at is None or not isinstance(before, dict):
        return None
    for name in sorted(operator.store.names(operator.backups), reverse=True):
        made = _made_at(name, like=at)
        if made is None or abs(at - made) > _NEAR:
            continue
        found = operator.store.read(name)
        try:
            state = decode(found.body, location=name) if isinstance(found, Found) else None
        except StateCorrupt:
            continue
        if state is not None and all(before.get(key) == value for key, value in summary(state).items()):
            return name
    return None


def _made_at(backup: str, *, like: datetime) -> datetime | None:
    try:
        return datetime.strptime(backup.rpartition("/")[2], "%Y%m%dT%H%M%S_%fZ.json").replace(tzinfo=like.tzinfo)
    except ValueError:
        return None


def _ids(record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Of the rows that it names."""
    after = record.get("after")
    ids = after.get(key) if isinstance(after, dict) else None
    return tuple(one for one in ids if isinstance(one, str)) if isinstance(ids, list) else ()


def _text(record: Mapping[str, Any], key: str) -> str | None:
    value = record.get(key)
    return None if value is None else str(value)


# --- the changes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UndoByResume(Undoing, Resume):
    """Of a pause or a cancel."""


@dataclass(frozen=True)
class UndoByPause(Undoing, Pause):
    """Of a resume."""


@dataclass(frozen=True)
class UndoByRestore(Undoing, Restore):
    """Of a reset, a rebind, or a checkpoint that was overwritten.

    Attributes:
        backup: the name of what was replaced.
    """

    backup: str = ""

    taken_back = "Rows that were delivered before it count as delivered."

    def _takes_back(self, state: State) -> bool:
        return True

    def instead(self, on: Changes) -> str:
        return f"if the cursor is right for the new one: poller reset-to-checkpoint {on.name} {self.backup} --rebind"
