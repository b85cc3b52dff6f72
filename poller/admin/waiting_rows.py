"""Rows that wait, aside or in quarantine, if a change would take their source or their list from them."""

from __future__ import annotations

from poller.admin.refusals import Refused
from poller.model.aside import after_reset, waiting
from poller.model.document import State
from poller.model.fingerprint import UNKNOWN_FINGERPRINTS


def refuse_rebinding(name: str, before: State, after: State) -> None:
    """While rows wait, aside or in quarantine, the document stays with its source (failures.md, rule 8): the current
    version of such a row would be read from the other one.

    Raises: Refused, where `after` belongs to another source than `before`.
    """
    count, stored = waiting(before), before.source_fingerprint
    if not count or stored in UNKNOWN_FINGERPRINTS or stored == after.source_fingerprint:
        return
    rows = "1 row of its source waits" if count == 1 else f"{count} rows of its source wait"
    raise Refused(
        f"{name}: {rows}, aside or in quarantine, and would then belong to another source. Nothing was changed.",
        next_step=f"Put the former source back and hand them over: poller quarantine replay {name} --all; or give them"
        f" up: poller quarantine discard {name} --all. Then try again.",
    )


def no_longer_tried(name: str, before: State, after: State) -> list[str]:
    """A note on rows that were retried automatically, and after a change wait for a person (failures.md, rule
    10)."""
    waits = {row.id for row in after.quarantine}
    count = sum(1 for row in after_reset(before).aside if row.id in waits)
    if not count:
        return []
    rows = "The row that is aside is" if count == 1 else f"The {count} rows that are aside are"
    itself, it = ("itself", "it") if count == 1 else ("themselves", "them")
    return [f"{rows} tried no more by {itself}: a person replays or discards {it}, see poller quarantine list {name}."]


def left_waiting(name: str, state: State) -> list[str]:
    """A note on the rows of the poller `name` that do not come along with its checkpoint."""
    count = waiting(state)
    if not count:
        return []
    rows = "1 row waits" if count == 1 else f"{count} rows wait"
    return [f"Under {name}, {rows}, aside or in quarantine, and not here: see poller quarantine list {name}."]
