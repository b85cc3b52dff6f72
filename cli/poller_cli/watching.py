"""What `watch` sees: the status of each poller again and again, and how fast its checkpoint moved in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from poller.admin.rates import Rates
from poller.backfill.survey import survey
from poller.errors import PollerError
from poller_cli import exits
from poller_cli.output.watch_models import Sample, WatchedBackfill, WatchedPoller, WatchOutput

if TYPE_CHECKING:
    from poller.backfill.documents import Document
    from poller.poller import Poller
    from poller_cli.naming import ConsoleApp


class Watcher:
    """Takes samples of some pollers and of their backfills. Not for several threads at once.

    Args:
        named: backfills that were asked for by name.
    """

    def __init__(
        self,
        app: ConsoleApp,
        pollers: Sequence[Poller],
        named: Sequence[Document] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._pollers = list(pollers)
        self._named = list(named)
        self._rates = Rates(clock)

    def sample(self) -> Sample:
        """Look now. Raises nothing that is a PollerError: what is not known is said in each status."""
        failures = self._read_again()
        looked = survey(self._pollers, self._app.backfills, self._named, null_cursors=False)
        codes = [exits.of_survey(looked), *(error.exit_code for error in failures.values())]
        watched = [
            WatchedPoller(status=one, rows_per_second=self._rates.rows_per_second(poller.source, one))
            for poller, one in zip(self._pollers, looked.pollers, strict=True)
        ]
        backfills = None
        if looked.backfills is not None:
            backfills = []
            for one in looked.backfills:
                failed = {"error": str(failures[one.name])} if one.name in failures else {}
                status = one.model_copy(update=failed)
                rate = self._rates.rows_per_second(self._app.poller(one.poller).source, status)
                backfills.append(WatchedBackfill(status=status, rows_per_second=rate))
        output = WatchOutput(at=datetime.now(UTC), pollers=watched, backfills=backfills)
        return Sample(output, exits.worst(codes))

    def _read_again(self) -> dict[str, PollerError]:
        """The documents of those that were named, as they are now; where one cannot be read, the former one and why."""
        failures: dict[str, PollerError] = {}
        for number, document in enumerate(self._named):
            try:
                self._named[number] = self._app.backfills.read(document.name) or document
            except PollerError as error:
                failures[document.name] = error
        return failures
