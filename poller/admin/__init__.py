"""What an operator sees and may change beside the workers: status, findings, edits, restored checkpoints.

All take a `wired` poller. `look` is one look at a poller: `facts` says what a document, a page and an error say of
it, and `poller.model.conditions` makes the picture. `status` is what it shows to an operator, `health` the public
half of that. `round` looks at many at once for their health (`quick` if nothing waits), with what
the looks before remembered (`memory`); `side_by_side` does for the console. `doctor` looks at what a poller stands
on, `peek` at its next rows, `history` at its audit trail, and `export` at its checkpoint alone; none of them changes
a poller.

`changes` is how every change is made: a preview, what refuses it, agreement, the write, and a result. A `request`
says how it is asked for, and a `change_result` is what was done. The changes are in `pausing` (pause, cancel, resume),
`resets`, `rebind`, `restore`, `clone`, `undo`, `quarantine` and `import_azure_functions_db`.

Beneath them `editor` writes: a backup first, one compare-and-swap, an audit record; `recovery` does so where no
document can be read. `effects` says what a moved checkpoint does to rows, `cursors` whether a cursor fits a source,
and `refusals` are the errors of changes that are not made.

The names of the package are what programs use of it (docs/python.md); each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.doors import door

if TYPE_CHECKING:
    from poller.admin.capture import TableCapture
    from poller.admin.change_result import ChangeOutput
    from poller.admin.changes import Change, Changes, Preview
    from poller.admin.clone import clone_checkpoint
    from poller.admin.doctor import Checked
    from poller.admin.editor import Applied, Operator
    from poller.admin.export import export_checkpoint
    from poller.admin.health import Health, PollerHealth
    from poller.admin.history import HistoryOutput
    from poller.admin.import_azure_functions_db import Import, read_foreign
    from poller.admin.pausing import Cancel, Pause, Resume
    from poller.admin.peek import Peek
    from poller.admin.prune import TablePrune
    from poller.admin.quarantine.listing import QuarantineOutput
    from poller.admin.quarantine.replay import QuarantineReplayOutput
    from poller.admin.quarantine.waiting import WaitingRows
    from poller.admin.rebind import Rebind
    from poller.admin.refusals import Refused, WrongArgument
    from poller.admin.request import ChangeOptions
    from poller.admin.resets import Reset
    from poller.admin.restore import Restore, find_checkpoint, read_checkpoint
    from poller.admin.status import PollerStatus
    from poller.admin.undo import undo_of

__all__ = [
    "Applied",
    "Cancel",
    "Change",
    "ChangeOptions",
    "ChangeOutput",
    "Changes",
    "Checked",
    "Health",
    "HistoryOutput",
    "Import",
    "Operator",
    "Pause",
    "Peek",
    "PollerHealth",
    "PollerStatus",
    "Preview",
    "QuarantineOutput",
    "QuarantineReplayOutput",
    "Rebind",
    "Refused",
    "Reset",
    "Restore",
    "Resume",
    "TableCapture",
    "TablePrune",
    "WaitingRows",
    "WrongArgument",
    "clone_checkpoint",
    "export_checkpoint",
    "find_checkpoint",
    "read_checkpoint",
    "read_foreign",
    "undo_of",
]

_HOMES = {
    "Applied": "editor",
    "Cancel": "pausing",
    "Change": "changes",
    "ChangeOptions": "request",
    "ChangeOutput": "change_result",
    "Changes": "changes",
    "Checked": "doctor",
    "Health": "health",
    "HistoryOutput": "history",
    "Import": "import_azure_functions_db",
    "Operator": "editor",
    "Pause": "pausing",
    "Peek": "peek",
    "PollerHealth": "health",
    "PollerStatus": "status",
    "Preview": "changes",
    "QuarantineOutput": "quarantine.listing",
    "QuarantineReplayOutput": "quarantine.replay",
    "Rebind": "rebind",
    "Refused": "refusals",
    "Reset": "resets",
    "Restore": "restore",
    "Resume": "pausing",
    "TableCapture": "capture",
    "TablePrune": "prune",
    "WaitingRows": "quarantine.waiting",
    "WrongArgument": "refusals",
    "clone_checkpoint": "clone",
    "export_checkpoint": "export",
    "find_checkpoint": "restore",
    "read_checkpoint": "restore",
    "read_foreign": "import_azure_functions_db",
    "undo_of": "undo",
}

__getattr__, __dir__ = door(__name__, _HOMES)
