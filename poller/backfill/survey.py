"""Where the pollers of an application and their backfills stand, several at a time. Nothing is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from poller import once
from poller.admin.look import look as look_at_poller
from poller.admin.side_by_side import Inquiry, side_by_side
from poller.admin.status import PollerStatus
from poller.admin.wired import database_of, gives_sign_of_life
from poller.backfill.documents import Document
from poller.backfill.listing import Backfills
from poller.backfill.status import BackfillStatus, look
from poller.backfill.wired import LivePoller
from poller.errors import SourceUnavailable, StoreError
from poller.model.memory import PollerMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """One look at some pollers and backfills.

    Attributes:
        pollers: in the order that they were asked for. backfills: of these pollers, those that are not finished, and
            those that were named; None if the store did not list its documents.
        named: the documents of backfills that were asked for by name.
        unread: so many documents were not looked at in search of backfills: there are too many.
        unreadable: why others, with the name of a backfill, could not be read.
        not_listed: why the store did not list its documents, if it did not.
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
    connections: int = 1,
    seen: dict[str, PollerMemory] | None = None,
    beside: str | None = None,
) -> Survey:
    """The status of each, several at a time: one database that does not answer delays no other.

    Args:
        named: backfills that were asked for by name. connections: how many one database gives.
        seen: what looks remember of each poller; those of this survey are added.
        beside: another configuration that works under their app's name.

    Raises: LeaseHeld, if a batch of one of these pollers runs in this process. What cannot be read is in each
        status (`error`, `failure`).
    """
    with once.command():
        looks = [_of_poller(poller, seen, beside) for poller in pollers]
        looked = side_by_side(looks, connections=connections)
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
        groups = side_by_side([_of_group(one, backfills) for one in by_poller.values()], connections=connections)
        found = [one for group in groups for one in group]
    return Survey(
        pollers=looked,
        backfills=None if not_listed is not None and not named else found,
        named=frozenset(one.name for one in named),
        unread=unread,
        unreadable=unreadable,
        not_listed=not_listed,
    )


def _of_poller(poller: LivePoller, seen: dict[str, PollerMemory] | None, beside: str | None) -> Inquiry[PollerStatus]:
    def ask(silent: SourceUnavailable | None) -> PollerStatus:
        with poller.alone():
            return look_at_poller(poller, silent=silent, seen=seen, beside=beside)

    return Inquiry(
        database_of(poller),
        ask=ask,
        unavailable=lambda status: isinstance(status.failure, SourceUnavailable),
        lives=lambda: gives_sign_of_life(poller),
    )


def _of_group(group: Sequence[Document], backfills: Backfills) -> Inquiry[list[BackfillStatus]]:
    """One poller's, one after the other: they share its connection."""
    poller = backfills.live(group[0])
    return Inquiry(
        database_of(poller),
        ask=lambda silent: [look(one, backfills, silent) for one in group],
        unavailable=lambda found: any(isinstance(one.failure, SourceUnavailable) for one in found),
        lives=lambda: gives_sign_of_life(poller),
    )
