"""Reading the rows of a tick: where it starts, and page by page."""

from __future__ import annotations

from poller.delivery.context import Context
from poller.delivery.preflight import check_fingerprint
from poller.lease.state_file import Copy
from poller.model.cursor import Cursor
from poller.model.document import State
from poller.ports import Bound, Page


class Reader:
    """Reads pages for one tick.

    Attributes:
        bound: below what the last page was read; None before the first.
    """

    def __init__(self, context: Context) -> None:
        self.bound: Bound | None = None
        self._context = context

    def start(self, copy: Copy | None) -> Cursor | None:
        """The cursor to read from: the checkpoint's, or what `start_from` means where there is no document. The source
        learns what an earlier process knew of its bound. Raises: as `Source.start`."""
        source = self._context.source
        if copy is None:
            return source.start()
        if copy.state.bound is not None:
            source.recall(copy.state.bound)
        return copy.state.checkpoint.cursor

    def page(self, after: Cursor | None, state: State | None) -> Page:
        """The rows of the next batch and one more, which shows whether it is the last.

        Raises: FingerprintMismatch, where the server just said that the names in the configuration mean another table
            than that of `state`; SourceUnavailable, SourceError.
        """
        context, source = self._context, self._context.source
        before = source.describe()
        page = source.page(after, context.options.batch_size + 1)
        if state is not None and source.describe() is not before:  # the server was asked what the names mean
            check_fingerprint(context.name, state, source)
        self.bound = page.bound
        context.watch_bound(context.name, context.runtime.utcnow(), page.bound)
        return page
