"""Where the pollers of an application and their backfills stand, several at a time. Nothing is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from poller.admin.status import PollerStatus
from poller.backfill.documents import Document
from poller.backfill.listing import Backfills
from poller.backfill.status import BackfillStatus, look
from poller.backfill.wired import LivePoller
from poller.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """One look at some pollers and backfills.

    Attributes:
        pollers: in the order that they were asked for. backfills: of these pollers, those that are not finished, and
            those that were named; None where the store did not list its documents.
        named: the documents of backfills that were asked for by name.
        unread: so many documents were not looked at in search of backfills: there are too many.
        unreadable: why others, with the name of a backfill, could not be read.
        not_listed: why the store did not list its documents, where it did not.
    """

    pollers: list[PollerStatus]
    backfills: list[BackfillStatus] | None
    named: frozenset[str] = frozenset()
    unread: int = 0
    unreadable: list[str] = field(default_factory=list)
    not_listed: StoreError | None = None


def survey(
    pollers: Sequence[LivePoller],
    backfills: Backfills,
    named: Sequence[Document] = (),
    *,
    null_cursors: bool = True,
) -> Survey:
    """The status of each, several at a time: one database that does not answer delays no other.

    Args:
        named: backfills that were asked for by name.
        null_cursors: also count rows without a cursor; without an index on it the whole table is read for that.

    Raises: LeaseHeld, where a batch of one of these pollers runs in this process. What cannot be read stands in each
        status (`error`, `failure`).
    """
    with ThreadPoolExecutor(max_workers=min(8, max(1, len(pollers)))) as pool:
        looked = list(pool.map(lambda poller: poller.status(null_cursors=null_cursors), pollers))
        documents = {one.name: one for one in named}
        unread, unreadable, not_listed = 0, list[str](), None
        try:
            if pollers:
                listing = backfills.unfinished({poller.name for poller in pollers})
                unread, unreadable = listing.unread, listing.unreadable
                documents |= {one.name: one for one in listing.documents if one.name not in documents}
        except StoreError as error:
            not_listed = error
        by_poller: dict[str, list[Document]] = defaultdict(list)
        for document in documents.values():
            by_poller[document.of or ""].append(document)
        # One poller's one after the other: they share its connection.
        groups = pool.map(lambda group: [look(one, backfills) for one in group], by_poller.values())
        found = [one for group in groups for one in group]
    return Survey(
        pollers=looked,
        backfills=None if not_listed is not None and not named else found,
        named=frozenset(one.name for one in named),
        unread=unread,
        unreadable=unreadable,
        not_listed=not_listed,
    )
