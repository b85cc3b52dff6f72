"""`rebind`: a changed source is accepted, and the cursor kept."""

from __future__ import annotations

from poller.admin.change_result import ChangeOutput
from poller.admin.changes import StateEditor
from poller.admin.conversation import Conversation
from poller.admin.cursors import impossible, is_foreign, located, refuse_foreign, unreadable
from poller.admin.effects import Effect, rows_up_to
from poller.admin.plans import Plan
from poller.admin.request import Request
from poller.admin.wired import WiredPoller
from poller.delivery.preflight import put_back
from poller.errors import FingerprintMismatch, SourceError, SourceUnavailable
from poller.model.changes import to_rebind
from poller.model.cursor import Cursor
from poller.model.document import State
from poller.model.fingerprint import UNKNOWN_FINGERPRINTS, differences

UNCOUNTED = "which rows of the two sources are the same is not known"


def rebind(
    poller: WiredPoller,
    request: Request | None = None,
    conversation: Conversation | None = None,
    *,
    after_failover: bool = False,
) -> ChangeOutput:
    """Accept that the source of `poller` was changed, or its table so that it refuses to go on, and go on from the same
    cursor. `after_failover`: accept that another server answers, which has all rows that the former one committed.

    Raises: FingerprintMismatch (the cursor cannot be one of the configured source), LeaseHeld, Refused, WriteConflict,
        StoreError, SourceError.
    """
    editor = StateEditor(poller, request, conversation)
    with poller.alone():
        return editor.carry_out(_plan(poller, after_failover=after_failover))


def _plan(poller: WiredPoller, *, after_failover: bool) -> Plan:
    """The checkpoint belongs to the configured source from now on; rows up to the cursor count as delivered."""
    source = located(poller.source)

    def nothing(state: State) -> str | None:
        if state.source_fingerprint in UNKNOWN_FINGERPRINTS or is_foreign(state, source):
            return None
        if after_failover:
            known = (state.facts or {}).get("server")
            return None if known else f"It is not known which server {poller.name} was read from, so it waits for none."
        return None if _is_refused(poller, state) else f"{poller.name} belongs to the configured source already."

    def notes(state: State) -> list[str]:
        cursor = state.checkpoint.cursor
        poller.source.rests_on(None)
        refuse_foreign(poller.source, cursor, name=poller.name)
        try:
            _refuse_impossible(poller, cursor)
        except SourceError as missing:
            missing.next_step = f"{put_back(differences(state.source, source))} Nothing was changed."
            raise
        return [
            *unreadable(poller.source, state, source),
            f"Of the configured source, {rows_up_to(poller.source, cursor)} up to the cursor count as delivered.",
        ]

    return Plan(
        kind="rebind",
        transition=to_rebind(source),
        # The same cursor in other rows: nothing lies between the two places, and no count shows which rows are new.
        effect=lambda _: Effect(redelivered=None, skipped=None, not_counted=UNCOUNTED),
        nothing=nothing,
        differences=lambda state: differences(state.source, source),
        notes=notes,
    )


def _is_refused(poller: WiredPoller, state: State) -> bool:
    """Whether the table was changed so that the poller goes no further."""
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

    Raises: FingerprintMismatch, where the column cannot hold the cursor; SourceError, where the table cannot be read.
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
