"""Where a backfill stands: its document as it was read, and one count of what is left. Nothing is written.

The model is what `poller status --json` prints of one backfill, or of one part.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from poller.admin.cursors import is_foreign
from poller.admin.facts import facts_of, limits_of
from poller.admin.look import Looked
from poller.admin.status import PollerStatus, with_document
from poller.backfill.documents import Document
from poller.backfill.listing import Backfills
from poller.errors import FingerprintMismatch, SourceUnavailable
from poller.model.cursor import KeyValue
from poller.model.stamps import Stamp
from poller.tick.watches import PENDING_CAP


class BackfillStatus(PollerStatus):
    """The place of a backfill, or of one of its parts: that of a poller, with a range."""

    poller: str
    """Whose source is read and whose handler is called."""
    begins: str
    """The first value of the cursor column that is in it, in the column's own form."""
    ends: str
    """The first value that is not in it any more."""
    begins_key: dict[str, KeyValue] | None = None
    """Where rows of one value were cut by their keys: it begins behind the row of `begins` with this key."""
    ends_key: dict[str, KeyValue] | None = None
    """The same of its end: the row of `ends` with this key is its last."""
    finished: bool
    """True if every row of it was delivered."""
    finished_at: Stamp | None = None
    begun_by: str | None = None
    """Who began it; null if an earlier version did."""
    begun_at: Stamp | None = None


def look(document: Document, backfills: Backfills, silent: SourceUnavailable | None) -> BackfillStatus:
    """The status of one backfill, or of one part; `of` of its document must be known. What cannot be read is in
    it, as in `poller.admin.look.look`. `silent`: why the database is not asked."""
    of = backfills.live(document)
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
    copy = document.copy
    facts = facts_of(document.name, copy, of, copy.server_time or of.runtime.utcnow())
    words = backfills.command(document)
    goes_on = None if words is None else shlex.join(["poller", *words])
    facts = replace(facts, finished=document.finished, goes_on=goes_on)
    looked = Looked(with_document(status, copy, of, facts), facts, limits_of(of, backfill=True))
    return _asked(looked, document, backfills, silent).judged()[0]


def _asked(
    looked: Looked[BackfillStatus], document: Document, backfills: Backfills, silent: SourceUnavailable | None
) -> Looked[BackfillStatus]:
    """With what is left of it."""
    of = backfills.live(document)
    source = backfills.source(document)
    described = source.describe()
    if is_foreign(document.state, described):
        mismatch = FingerprintMismatch(
            f"It was begun with another source than {of.name} is configured with now.",
            stored=document.state.source_fingerprint,
            configured=described.fingerprint(),
        )
        return looked.ended(mismatch)
    if silent is not None:
        return looked.ended(silent)
    with of.alone():
        try:
            lag = source.lag(document.state.checkpoint.cursor, cap=PENDING_CAP)
        except Exception as error:  # noqa: BLE001 - one backfill's trouble must not hide another's
            return looked.ended(error)
    known = {"pending": lag.pending, "pending_capped": lag.pending_capped}
    facts = replace(looked.facts, readable=lag.pending > 0, pending=lag.pending, capped=lag.pending_capped)
    return replace(looked, status=looked.status.model_copy(update=known), facts=facts)
