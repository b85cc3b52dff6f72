"""Looking at pollers without touching them: the document by one read, the lag by one query. Nothing is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from poller.admin.cursors import is_foreign
from poller.admin.status import PollerStatus, with_document
from poller.app import Poller
from poller.delivery.watches import PENDING_CAP
from poller.errors import FingerprintMismatch, StoreDenied, StoreError
from poller_cli import exits
from poller_cli.output.models import BackfillStatus, StatusOutput
from poller_cli.terminal.printing import of_poller

if TYPE_CHECKING:
    from poller.backfill.documents import Document
    from poller_cli.naming import ConsoleApp


@dataclass(frozen=True, slots=True)
class Survey:
    """One look at some pollers and backfills.

    Attributes:
        backfills: of these pollers, those that are not finished, and those that were named; None where they could not
            be listed. unread: so many documents were not looked at. messages: what else to say, one line each.
    """

    pollers: list[PollerStatus]
    backfills: list[BackfillStatus] | None = None
    unread: int = 0
    messages: list[str] = field(default_factory=list)
    code: int = exits.DONE

    def output(self) -> StatusOutput:
        """As `status --json` prints it."""
        return StatusOutput(pollers=self.pollers, backfills=self.backfills, backfills_unread=self.unread)


def survey(app: ConsoleApp, pollers: Sequence[Poller], named: Sequence[Document] = (), *, nulls: bool = True) -> Survey:
    """The status of each, several at a time: one database that does not answer delays no other.

    `named`: backfills that were asked for by name. `nulls`: also count rows without a cursor, for which a table without
    an index on it is read as a whole. Raises nothing that is a PollerError.
    """
    with ThreadPoolExecutor(max_workers=min(8, max(1, len(pollers)))) as pool:
        looked = list(pool.map(lambda poller: poller.status(null_cursors=nulls), pollers))
        codes = [exits.of_error(one.failure) for one in looked]
        messages = [_complaint(one) for one in looked if one.error]
        unread, documents = 0, {one.name: one for one in named}
        try:
            if pollers:
                listing = app.backfills.unfinished({poller.name for poller in pollers})
                unread, messages = listing.unread, messages + listing.unreadable
                documents |= {one.name: one for one in listing.documents if one.name not in documents}
        except StoreError as error:
            # A store that may be read but not listed is none that is away; where it is away each status says so.
            if all(one.error is None for one in looked):
                messages.append(f"Whether there are backfills is not known: {error}")
                codes.append(exits.DONE if isinstance(error, StoreDenied) else error.exit_code)
            if not named:
                return Survey(looked, None, messages=messages, code=exits.worst(codes))
        by_poller: dict[str, list[Document]] = defaultdict(list)
        for document in documents.values():
            by_poller[document.of or ""].append(document)
        # One poller's one after the other: they share its connection.
        groups = pool.map(lambda group: [_look_at(app, one) for one in group], by_poller.values())
        backfills = [one for group in groups for one in group]
    asked = {one.name for one in named}
    failed = [one for one in backfills if one.error is not None and one.name in asked]
    codes += [exits.of_error(one.failure) for one in failed]
    return Survey(looked, backfills, unread, messages + [_complaint(one) for one in failed], exits.worst(codes))


def _complaint(one: PollerStatus) -> str:
    return of_poller(one.name, one.error or "")


def _look_at(app: ConsoleApp, document: Document) -> BackfillStatus:
    """The status of one backfill, or of one part, from its document as it was read, with one count of what is left.
    Raises nothing that is a PollerError."""
    of, source, cursor = app.poller(document.of or ""), app.backfills.source(document), document.state.checkpoint.cursor
    status = BackfillStatus(
        name=document.name,
        app_name=of.app_name,
        document=document.location,
        poller=of.name,
        begins=document.begins,
        ends=document.ends,
        begins_key=document.begins_key,
        ends_key=document.ends_key,
        finished=document.finished,
        finished_at=document.finished_at,
        begun_by=document.by,
        begun_at=document.at,
    )
    status = with_document(status, document.copy, of)
    described = source.describe()
    if is_foreign(document.state, described):
        mismatch = FingerprintMismatch(
            f"It was begun with another source than {of.name} is configured with now.",
            stored=document.state.source_fingerprint,
            configured=described.fingerprint(),
        )
        return status.failed(mismatch)
    try:
        lag = source.lag(cursor, cap=PENDING_CAP)
    except Exception as error:  # noqa: BLE001 - one backfill's trouble must not hide another's
        return status.failed(error)
    return status.model_copy(update={"pending": lag.pending, "pending_capped": lag.pending_capped})
