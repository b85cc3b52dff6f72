"""The question whether rows wait, to many databases at once, each over one connection.

It is kept for the next round unless another database of the server needs it: a server may have more databases than it
takes connections. Where all are in use for as long as a round asks, the database is asked later; the second time in
succession it is said to have given no answer, so that workers look at it.

A database that does not answer holds up no other: each is asked on a thread of its own, and a round waits for none
longer than `LONGEST`. Pollers that it did not come to are asked first the next time, since they are due for longest.

Of a database that does not answer at all, few pollers are said to have failed. Each such poller occupies a worker with
an attempt of its own, which may take half a minute: all of them would leave none for the pollers of other databases.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, Protocol

from poller.model.document import State
from poller.ports import Bound, Runtime, Source, Task
from poller.sources import SqlSource
from poller.sources.probing import NoAnswer, Prepared, RowProbe
from poller.tick.result import is_held_back

logger = logging.getLogger("poller")

TIMEOUT = timedelta(seconds=1)
"""The time limit of each statement."""
LONGEST = 4.0
"""Seconds for which one round asks one database."""
PATIENCE = 2.0
"""Seconds beyond that for its last answer."""

TOLD = 4
"""Of so many pollers of a database that does not answer at all, the answer is `failed`."""

Answer = Literal["rows", "none", "held", "unknown", "failed", "away", "later"]
"""`held`: rows wait, all of them above a bound that a transaction holds back. `unknown`: rows wait, and it is not known
whether they are below the bound. `failed`: no answer, or not in time.
`away`: nor this one, as the whole database does not answer, and enough others are `failed`. `later`: there was no time
to ask, or no connection."""


@dataclass(frozen=True, slots=True)
class Question:
    """The question whether rows of a poller wait. `state`: its document; `waited`: for how many seconds it has been
    due."""

    poller: str
    source: Source
    state: State
    waited: float = 0.0


class Prober(Protocol):
    """Who knows whether rows wait."""

    def ask(self, questions: Sequence[Question]) -> Mapping[str, Answer]:
        """An answer for each poller; those that come first are asked first. Raises nothing."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...


@dataclass
class _Database:
    """One database, while it is asked."""

    lookout: RowProbe
    task: Task | None = None
    passed_over: bool = False
    """True if the last round found no connection to it."""
    prepared: dict[str, tuple[object, Prepared]] = field(default_factory=dict)

    @property
    def hangs(self) -> bool:
        """True if an earlier round's question is not answered yet."""
        return self.task is not None and self.task.is_alive()


class DatabaseProber:
    """Asks the databases. Of a source that is not a `SqlSource` it knows nothing."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._databases: dict[Hashable, _Database] = {}

    def ask(self, questions: Sequence[Question]) -> Mapping[str, Answer]:
        """See `Prober.ask`."""
        answers: dict[str, Answer] = {}
        groups: dict[Hashable, list[tuple[Question, SqlSource]]] = {}
        for one in questions:
            if isinstance(one.source, SqlSource):
                groups.setdefault(one.source.subject.database, []).append((one, one.source))
            else:
                answers[one.poller] = "failed"
        asked = [(group, *self._begin(url, group)) for url, group in groups.items()]
        ends = self._runtime.monotonic() + LONGEST + PATIENCE
        for group, database, found in asked:
            if database is not None and database.task is not None:
                database.task.join(max(0.0, ends - self._runtime.monotonic()))
            known = dict(found)  # what comes later is not waited for
            silent = [one.poller for one, _ in group if one.poller not in known]
            answers |= known
            answers |= {poller: "failed" if at < TOLD else "away" for at, poller in enumerate(silent)}
        return answers

    def _begin(
        self, url: Hashable, group: list[tuple[Question, SqlSource]]
    ) -> tuple[_Database | None, dict[str, Answer]]:
        """Ask one database on a thread of its own; its answers appear in the second value."""
        database = self._databases.get(url)
        if database is None:
            database = self._databases[url] = _Database(
                RowProbe(group[0][1].subject, TIMEOUT, timedelta(seconds=LONGEST))
            )
        elif database.hangs:
            return None, {}
        found: dict[str, Answer] = {}
        asked = database
        database.task = self._runtime.spawn(lambda: self._ask(asked, group, found), "poller-dispatch-probe")
        return database, found

    def _ask(self, database: _Database, group: list[tuple[Question, SqlSource]], found: dict[str, Answer]) -> None:
        try:
            self._ask_each(database, group, found)
        finally:
            database.lookout.rest()

    def _ask_each(self, database: _Database, group: list[tuple[Question, SqlSource]], found: dict[str, Answer]) -> None:
        passed_over, database.passed_over = database.passed_over, False
        ends = self._runtime.monotonic() + LONGEST
        bounds: dict[Hashable, Bound] = {}
        for at, (question, source) in enumerate(group):
            if self._runtime.monotonic() >= ends:
                found.update((one.poller, "later") for one, _ in group[at:])
                return
            try:
                found[question.poller] = _answer(database, question, source, bounds)
            except NoAnswer as none:
                if none.unasked and not passed_over:
                    database.passed_over = True
                    found.update((one.poller, "later") for one, _ in group[at:])
                    return
                if none.everywhere:
                    return  # no other poller of this database is answered either
                found[question.poller] = "failed"
            except Exception as error:  # noqa: BLE001 - no fault may take the other pollers along
                logger.warning("dispatch: %s could not be asked: %s", question.poller, type(error).__name__)
                found[question.poller] = "failed"

    def close(self) -> None:
        """See `Prober.close`."""
        for database in self._databases.values():
            if not database.hangs:
                database.lookout.close()
        self._databases.clear()


def _answer(database: _Database, question: Question, source: SqlSource, bounds: dict[Hashable, Bound]) -> Answer:
    """Raises: NoAnswer."""
    state, lookout = question.state, database.lookout
    stored, kind, after = state.facts, (state.bound or {}).get("kind"), state.checkpoint.cursor
    if after is not None and after.snapshot is not None:  # no change says that rows of the table wait
        return "rows"
    kept = database.prepared.get(question.poller)
    if kept is None or kept[0] != (stored, kind):
        made = lookout.prepare(source.subject, stored, kind if isinstance(kind, str) else None)
        if made is None:
            return "none"
        kept = database.prepared[question.poller] = (stored, kind), made
    one = kept[1]
    bound = bounds.get(one.way)
    if bound is None:
        bound = bounds[one.way] = lookout.bound(one)
    if bound.value is None and bound.kind != "none":
        return "unknown" if lookout.waits(one, after, None) else "none"
    if lookout.waits(one, after, bound):
        return "rows"
    return "held" if _is_before(bound, question.waited) and lookout.waits(one, after, None) else "none"


def _is_before(bound: Bound, waited: float) -> bool:
    """True if the bound is held back, from before the moment at which the poller fell due."""
    age = None if bound.clock_went_back else bound.age_seconds
    return is_held_back(bound) and (age is None or age >= waited)
