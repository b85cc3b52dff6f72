"""`Poller.quarantine`: the rows of one poller that wait, for a program."""

from __future__ import annotations

from collections.abc import Mapping

from poller.admin.change_result import ChangeOutput
from poller.admin.changes import Changes
from poller.admin.quarantine.add import Add
from poller.admin.quarantine.choice import Choice
from poller.admin.quarantine.discard import Discard
from poller.admin.quarantine.listing import QuarantineOutput, QuarantineShowOutput, list_waiting, show_waiting
from poller.admin.quarantine.replay import QuarantineReplayOutput, ReplayingPoller, replay, version_of
from poller.admin.request import ChangeOptions
from poller.handler.call import Handler


class WaitingRows:
    """The rows of one poller that are set aside, or wait for a person. Each method is a command of `poller quarantine`,
    with its guards; there is no confirmation: the call itself is the consent.

    Args:
        poller: whose rows. file: its configuration file, for the commands in errors.
    """

    def __init__(self, poller: ReplayingPoller, file: str = "") -> None:
        self._poller = poller
        self._file = file

    def list(self) -> QuarantineOutput:
        """Which rows wait, without their content. Takes no lease, changes nothing; call it from any thread.

        Raises: StoreError (also where there is no state document yet).
        """
        return list_waiting(self._poller)

    def show(self, id: str) -> QuarantineShowOutput:  # noqa: A002 - as the option is called
        """One row with its content, also one that waits no longer, as long as its record is kept (`quarantine_ttl`).
        Takes no lease, changes nothing; call it from any thread.

        Raises: WrongArgument (no such row), StoreError.
        """
        return show_waiting(self._poller, id)

    def replay(
        self,
        *ids: str,
        key: Mapping[str, str] | None = None,
        all: bool = False,  # noqa: A002 - as the option is called
        current: bool = False,
        recorded: bool = False,
        handler: Handler | None = None,
        reason: str | None = None,
        by: str | None = None,
        dry_run: bool = False,
    ) -> QuarantineReplayOutput:
        """Hand rows to the handler under the lease, one per call, the oldest of each ordering key first; the checkpoint
        does not move. A row that fails still waits, and the later ones of its key are not handed over.

        Args:
            ids, key, all: which rows, as of `discard`.
            current: as the table has them now. recorded: as they were recorded, whatever happened since. Neither: as
                they were recorded, if the table still has that version.
            handler: called with each row (`batch.replay` is true); default: the configured one.
            reason, by, dry_run: as of `Poller.reset`.

        Returns: what became of each row. What the handler raises is in there.
        Raises: Refused, if no row could be handed over; WrongArgument, LeaseHeld, PollerError (paused or halted),
            FingerprintMismatch, ConfigError (the handler, or another `ordering_key`), StoreError, SourceError.
        """
        request = ChangeOptions(dry_run=dry_run, by=by, reason=reason, file=self._file)
        version = version_of(current=current, recorded=recorded)
        choice = Choice(ids=ids, key=key or {}, all=all)
        return replay(self._poller, choice, version, request, handler=handler)

    def discard(
        self,
        *ids: str,
        key: Mapping[str, str] | None = None,
        all: bool = False,  # noqa: A002 - as the option is called
        break_lease: bool = False,
        reason: str | None = None,
        by: str | None = None,
        dry_run: bool = False,
    ) -> ChangeOutput:
        """Give rows up: they are never delivered. Their records stay for `quarantine_ttl`, and say by whom and why.

        Args:
            ids: of the rows; or instead
            key: those with these values, as text, in columns of the ordering key; or
            all: every row that waits.
            break_lease, reason, by, dry_run: as of `Poller.reset`.

        Returns: `rows` are those that were discarded; `changed` is false where none was.
        Raises: WrongArgument, Refused (not passed yet), LeaseHeld, WriteConflict, StoreError. Nothing is changed then.
        """
        request = ChangeOptions(dry_run=dry_run, break_lease=break_lease, by=by, reason=reason, file=self._file)
        return Changes(self._poller, request).make(Discard(Choice(ids=ids, key=key or {}, all=all)))

    def add(
        self,
        pk: Mapping[str, object],
        *,
        break_lease: bool = False,
        reason: str | None = None,
        by: str | None = None,
        dry_run: bool = False,
    ) -> ChangeOutput:
        """Set a row aside by hand, in every mode: a way past a row that fails, instead of a reset. It must lie ahead of
        the checkpoint; once that has passed it, it is retried automatically, and later rows of its ordering key wait.

        Args:
            pk: its primary key, by column; the row is set aside as the table has it now.
            break_lease, reason, by, dry_run: as of `Poller.reset`.

        Raises: WrongArgument (no such row), Refused (the checkpoint has passed it, or `max_quarantined` rows wait),
            LeaseHeld, FingerprintMismatch, ConfigError (rows wait under another `ordering_key`), NoRecord (too large
            for a record), SourceError, StoreError, WriteConflict. Nothing is passed then.
        """
        request = ChangeOptions(dry_run=dry_run, break_lease=break_lease, by=by, reason=reason, file=self._file)
        return Changes(self._poller, request).make(Add({name: str(value) for name, value in pk.items()}))
