"""`poller rebind`: accept a changed source, keeping the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from poller_cli.guards import (
    BreakLeaseOption,
    ConfirmOption,
    Consent,
    DryRunOption,
    NameArgument,
    ReasonOption,
    YesOption,
)
from poller_cli.session import Session

if TYPE_CHECKING:
    from poller.app import Poller
    from poller.model.cursor import Cursor

UNKNOWN = "which rows of the two sources are the same is not known"


def rebind(
    session: Session,
    name: NameArgument,
    reason: ReasonOption = None,
    yes: YesOption = False,
    confirm: ConfirmOption = None,
    dry_run: DryRunOption = False,
    break_lease: BreakLeaseOption = False,
) -> int:
    """Accept that the source was changed, and go on from the same cursor. Shows what differs, field by field.

    Rows of the changed source up to the cursor count as delivered.

    Example: poller rebind orders --reason "the database moved to db2"
    """
    from poller.admin.changes import Plan
    from poller.admin.cursors import is_foreign, located, refuse_foreign, unreadable
    from poller.admin.effects import Effect, rows_up_to
    from poller.delivery.preflight import put_back
    from poller.errors import SourceError
    from poller.model.changes import to_rebind
    from poller.model.document import State
    from poller.model.fingerprint import UNKNOWN_FINGERPRINTS, differences
    from poller_cli.changes import change

    consent = Consent(yes, confirm, dry_run, break_lease, reason=reason)
    with session.app() as app:
        poller = app.poller(name)
        source = located(poller.source)

        def nothing(state: State) -> str | None:
            if state.source_fingerprint not in UNKNOWN_FINGERPRINTS and not is_foreign(state, source):
                return f"{name} belongs to the configured source already."
            return None

        def notes(state: State) -> list[str]:
            refuse_foreign(poller.source, state.checkpoint.cursor, name=name)
            try:
                _refuse_impossible(poller, state.checkpoint.cursor)
            except SourceError as missing:
                missing.next_step = f"{put_back(differences(state.source, source))} Nothing was changed."
                raise
            told = rows_up_to(poller.source, state.checkpoint.cursor)
            return [
                *unreadable(poller.source, state, source),
                f"Of the configured source, {told} up to the cursor count as delivered.",
            ]

        plan = Plan(
            kind="rebind",
            transition=to_rebind(source),
            # The same cursor in other rows: nothing lies between the two places, and no count tells which rows are new.
            effect=lambda _: Effect(None, None, not_counted=UNKNOWN),
            nothing=nothing,
            differences=lambda state: differences(state.source, source),
            notes=notes,
        )
        return change(session, app, poller, consent, plan)


def _refuse_impossible(poller: Poller, cursor: Cursor | None) -> None:
    """A server that does not answer refuses nothing: that nothing was counted is said. A file that cannot be opened is
    more likely a wrong one.

    Raises: FingerprintMismatch, where the column cannot hold the cursor; SourceError, where the table cannot be read.
    """
    from poller.admin.cursors import impossible
    from poller.errors import FingerprintMismatch, SourceUnavailable
    from poller.ports import InspectableSource

    try:
        why = impossible(cast("InspectableSource", poller.source), cursor)
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
