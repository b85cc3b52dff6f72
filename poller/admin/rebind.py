"""`rebind`: a changed source is accepted, and the cursor kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poller.admin.changes import Change, Changes
from poller.admin.cursors import impossible, is_foreign, refuse_foreign, unreadable
from poller.admin.effects import Effect, rows_up_to
from poller.admin.wired import WiredPoller
from poller.errors import FieldDifference, FingerprintMismatch, SourceError, SourceUnavailable
from poller.model.changes import Transition, to_rebind
from poller.model.cursor import Cursor
from poller.model.document import State
from poller.model.fingerprint import UNKNOWN_FINGERPRINTS, differences
from poller.tick.preflight import put_back

UNCOUNTED = "which rows of the two sources are the same is not known"


@dataclass(frozen=True)
class Rebind(Change):
    """Accept that the source was changed, or its table so that the poller refuses to go on, and go on from the same
    cursor: rows up to it count as delivered.

    Attributes:
        after_failover: accept that another server answers, which has all rows that the former one committed.
    """

    after_failover: bool = False

    kind = "rebind"

    def transition(self, on: Changes) -> Transition:
        return to_rebind(on.source)

    def nothing(self, on: Changes, state: State) -> str | None:
        name = on.poller.name
        if state.source_fingerprint in UNKNOWN_FINGERPRINTS or is_foreign(state, on.source):
            return None
        if self.after_failover:
            known = (state.facts or {}).get("server")
            return None if known else f"It is not known which server {name} was read from, so it waits for none."
        return None if _is_refused(on.poller, state) else f"{name} belongs to the configured source already."

    def effect(self, on: Changes, state: State) -> Effect:
        """The same cursor in other rows: nothing lies between the two places, and no count shows which rows are new."""
        return Effect(redelivered=None, skipped=None, not_counted=UNCOUNTED)

    def differences(self, on: Changes, state: State) -> Sequence[FieldDifference]:
        return differences(state.source, on.source)

    def notes(self, on: Changes, state: State) -> Sequence[str]:
        """Raises: FingerprintMismatch, if the cursor cannot be one of the configured source; SourceError."""
        cursor, source = state.checkpoint.cursor, on.poller.source
        source.rests_on(None)
        refuse_foreign(source, cursor, name=on.poller.name)
        try:
            _refuse_impossible(on.poller, cursor)
        except SourceError as missing:
            missing.next_step = f"{put_back(differences(state.source, on.source))} Nothing was changed."
            raise
        return [
            *unreadable(source, state, on.source),
            f"Of the configured source, {rows_up_to(source, cursor)} up to the cursor count as delivered.",
        ]


def _is_refused(poller: WiredPoller, state: State) -> bool:
    """True if the table was changed so that the poller goes no further."""
    source, cursor = poller.source, state.checkpoint.cursor
    if state.facts is None:
        return False
    source.rests_on(state.facts)
    try:
        source.lag(cursor, cap=1)
    except SourceUnavailable:
        return False
    except SourceError:
        return True
    return False


def _refuse_impossible(poller: WiredPoller, cursor: Cursor | None) -> None:
    """A server that does not answer refuses nothing: the preview says that nothing was counted. A file that cannot be
    opened is more likely a wrong one.

    Raises: FingerprintMismatch, if the column cannot hold the cursor; SourceError, if the table cannot be read.
    """
    try:
        why = impossible(poller.source, cursor)
    except SourceUnavailable:
        if poller.source.describe().database.dialect == "sqlite":
            raise
        return
    if why:
        raise FingerprintMismatch(
            f"The cursor {cursor} cannot be one of the configured source of {poller.name!r}: {why}.",
            stored="",
            configured=poller.source.describe().fingerprint(),
            next_step=f"Nothing was changed. Put the former source back, or say where to go on: poller reset-to-cursor "
            f"{poller.name}, or poller reset-to-beginning {poller.name}.",
        )
