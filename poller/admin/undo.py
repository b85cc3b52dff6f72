"""`undo`: an operator's change is taken back, by what its record says (`Change.undo`).

A pause or cancel is resumed, and what was resumed from a pause is paused again; a reset, a rebind or an overwritten
checkpoint goes back to the backup of what it replaced; rows that were given up wait again, and a row that was set aside
is read again. Rows that lie between count as delivered: they were delivered, or knowingly skipped, before the change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from poller.admin.change_records import ChangeRecord, Undoing, backup_of, records_of_changes, taken_back
from poller.admin.changes import Change, Changes
from poller.admin.pausing import Pause, Resume
from poller.admin.quarantine.discard import Discard
from poller.admin.quarantine.undo import Relist, Unlist
from poller.admin.refusals import Refused, WrongArgument, clean, shown
from poller.admin.restore import Restore, find_backup
from poller.journal.quarantine.record import is_id
from poller.model.document import State
from poller.model.escape import cut
from poller.model.when import moment

MOST_SHOWN = 5
"""So many later changes are named."""


def undo_of(on: Changes, change: str | None = None) -> Change:
    """The change that takes back the one whose id begins with `change`; default: the newest that was not taken back.

    Raises: WrongArgument (there is none, or several), Refused (it cannot be taken back), StoreUnavailable, StoreDenied.
    """
    name, records = on.name, records_of_changes(on.operator)
    undone = taken_back(records)
    if change is not None:
        wanted = clean(change, "change").strip().lower()
        found = [one for one in records if wanted and one.id.startswith(wanted)]
        if len(found) != 1:
            what = "names several changes" if found else "names no change"
            raise WrongArgument(
                f"change: {shown(change)} {what} of {name!r}.", next_step=f"Its changes: poller undo {name} --list"
            )
    else:
        found = [one for one in records if one.kind != "undo" and one.id not in undone]
        if not found:
            raise WrongArgument(
                f"There is no change of {name!r} to take back.", next_step=f"What happened: poller history {name}"
            )
    record = found[-1]
    if record.id in undone:
        raise _refused(on, record, "it was taken back already")
    since = records[records.index(record) + 1 :]
    made_since = {one.id for one in since}
    stays = [one for one in since if one.id not in undone and one.undid not in made_since]
    return replace(_taking_back(on, record, _said(record, stays)), newest=records[-1].id)


def _said(record: ChangeRecord, later: list[ChangeRecord]) -> str:
    """Which change it is, for people, and what stays."""
    at, why = record.moment, record.reason
    when, because = f" of {moment(at)}" if at else "", f": {cut(why).rstrip('.')}" if why else ""
    said = f"It takes back {record.kind} {record.id[:8]}{when}, by {cut(record.by or 'unknown')}{because}."
    stays = ", ".join(cut(f"{one.kind} {one.id[:8]}") for one in later[-MOST_SHOWN:])
    return f"{said} What was changed since then stays: {stays}." if stays else said


def _taking_back(on: Changes, record: ChangeRecord, said: str) -> Undoing:
    """Raises: Refused."""
    match record.undo:
        case "resume":
            return UndoByResume(undid=record.id, said=said, at=record.moment)
        case "pause":
            return UndoByPause(undid=record.id, said=said)
        case "restore":
            operator = on.operator
            backup = backup_of(operator, record, set(operator.store.names(operator.backups)))
            if backup is None:
                raise _refused(on, record, "no backup of what it replaced is left, or there was nothing before it")
            return UndoByRestore(find_backup(on.poller, backup), undid=record.id, said=said, backup=backup)
        case "relist":
            given_up = record.kind == Discard.kind
            ids = tuple(filter(is_id, record.rows("unlisted" if given_up else "listed")))
            if not ids:
                raise _refused(on, record, "its record names no row")
            in_all = record.after.get("unlisted_in_all")
            if given_up and isinstance(in_all, int) and in_all > len(ids):
                said += f" Its record names {len(ids):,} of the {in_all:,} rows: only those wait again."
            return (Relist if given_up else Unlist)(ids=ids, undid=record.id, said=said)
    if record.kind == "resume" and record.before.get("halted"):
        raise _refused(on, record, "a halt cannot be made again: the batch is tried again, and halts if it fails")
    raise _refused(on, record, "there is nothing that takes it back")


def _refused(on: Changes, record: ChangeRecord, why: str) -> Refused:
    return Refused(
        f"{on.name}: {cut(record.kind)} {record.id[:8]} cannot be taken back: {why}. Nothing was changed.",
        next_step=f"Other changes, and backups: poller undo {on.name} --list",
    )


@dataclass(frozen=True)
class UndoByResume(Undoing, Resume):
    """Undo a pause or a cancel.

    Attributes:
        at: when that was; None if it is not known.
    """

    at: datetime | None = None

    def nothing(self, on: Changes, state: State) -> str | None:
        """Raises: Refused, if it was halted since: a resume would end that too."""
        if not state.control.paused:
            return f"{on.name} is not paused any more."
        control, why = state.control, None
        if control.halted:
            why = "is halted as well, and a resume would end both"
        elif None not in (self.at, control.at) and self.at != control.at:
            why = f"was paused again since, by {control.by or 'unknown'}"
        if why is not None:
            raise Refused(
                f"{on.name} {why}. Nothing was changed.", next_step=f"If that is meant: poller resume {on.name}"
            )
        return super().nothing(on, state)


@dataclass(frozen=True)
class UndoByPause(Undoing, Pause):
    """Undo a resume."""


@dataclass(frozen=True)
class UndoByRestore(Undoing, Restore):
    """Undo a reset, a rebind, or a checkpoint that was overwritten.

    Attributes:
        backup: the name of what was replaced.
    """

    backup: str = ""

    taken_back = "Rows that were delivered before it count as delivered."

    def _takes_back(self, state: State) -> bool:
        return True

    def instead(self, on: Changes) -> str:
        return f"if the cursor is right for the new one: poller reset-to-checkpoint {on.name} {self.backup} --rebind"
