"""Delivering a range: `prepare` says what is refused and what would be delivered, `deliver` delivers it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, ClassVar

from poller import worker
from poller.admin import request as admin
from poller.admin.effects import BACK, SAME, direction
from poller.admin.refusals import Refused, WrongArgument, clean, shown, whole
from poller.admin.wired import operator_of
from poller.backfill.claims import claim
from poller.backfill.documents import LONGEST_NAME, default_name, free_name, recognised
from poller.backfill.listing import begun_with
from poller.backfill.parts import Part, unsettled
from poller.backfill.ranges import Range, is_settled, pending
from poller.backfill.result import BackfillOutput
from poller.backfill.wired import LivePoller, table_of
from poller.config.types import is_name
from poller.errors import PollerError, SourceError, SourceUnavailable, StateCorrupt
from poller.handler.call import check_handler
from poller.model.part_names import MOST_PARTS, part_suffix
from poller.tick.preflight import check_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from poller.handler.call import Handler
    from poller.model.cursor import Cursor
    from poller.ports import Event


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """What is asked for; meaning and defaults as of `Poller.backfill`. `file`: the configuration file, for the commands
    in results and errors."""

    again: ClassVar[str] = "make the same call"
    """How one asks for the same again."""

    begins: str | int | date
    ends: str | int | date
    name: str | None = None
    parallel: int = 1
    retry: bool = False
    dry_run: bool = False
    by: str | None = None
    file: str = ""

    def option(self, name: str, value: object = None) -> str:
        """How one gives `begins`, `ends`, `name`, `parallel` or `retry`, or a value of it: in the console `--as`, or
        `--as replay`."""
        return "retry=True" if name == "retry" else name if value is None else f"{name}={value!r}"

    def command(self, *words: str) -> str:
        """A command line to copy."""
        return admin.command_line(self.file, *words)


def backfill(
    poller: LivePoller,
    request: BackfillRequest,
    *,
    taken: Collection[str] = (),
    handler: Handler | None = None,
    stop: Event | None = None,
) -> BackfillOutput:
    """Deliver a range of this poller's table, for a program: its call is the agreement. `taken`: names of configured
    pollers, which no backfill may have.

    Raises: as `Poller.backfill`.
    """
    if handler is not None:
        check_handler(handler)
    with Backfill(poller, request, taken=taken) as work:
        done = work.prepare()
        return work.deliver(handler, stop) if done is None else done


class Backfill:
    """The parts of one backfill. A context manager: closed, it lets go of their connections and handlers' processes.

    Attributes:
        begun_with: in how many parts it was begun, None if it was not.
        pending: rows that will be delivered, and whether there are more; None if the database does not count them.
        notices: something to know that is not an error.

    Raises: WrongArgument, FingerprintMismatch, ConfigError, SourceError, StoreError.
    """

    def __init__(self, poller: LivePoller, request: BackfillRequest, *, taken: Collection[str] = ()) -> None:
        self.poller = poller
        self.request = request
        self.pending: tuple[int, bool] | None = None
        self.parts: list[Part] = []
        self.notices: list[str] = []
        self._taken = {poller.name, *taken}
        self._by = admin.identity(request.by)
        self._cuts: list[Cursor] = []
        parallel = whole(request.parallel, request.option("parallel"), least=1, most=MOST_PARTS)
        self._whole = table_of(poller).another()  # the poller's own serves one thread, which may be at work
        try:
            self._empty = not self._whole.lag(None, cap=1).pending
            self.range = self._range()
            self.name = self._named()
            self.begun_with = begun_with(self.name, poller.store, poller.app_name)
            self._make_parts(self.begun_with or parallel)
            for part in self.parts:
                part.look(self._rename)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Backfill:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the parts' connections and handlers; the store is the poller's."""
        for part in self.parts:
            part.poller.close()
        self._whole.close()

    def prepare(self) -> BackfillOutput | None:
        """Say what would be delivered (`pending`, `parts`), or return the result if there is nothing to deliver, or it
        is a dry run. Changes nothing. Raises: as `backfill`."""
        request = self.request
        if self.begun_with not in (None, request.parallel) and request.parallel != 1:
            self.notices.append(f"It was begun with {request.option('parallel', self.begun_with)}, and goes on so.")
        if self._empty:
            self.notices.append(f"{self.poller.name}: the table holds no row; there is nothing to deliver.")
            self.pending = (0, False)
            return self._output()
        if all(part.finished for part in self.parts):
            free = free_name(self.poller.name, self.poller.store, self.poller.app_name, taken=self._taken)
            once_more = f"To deliver it once more, give it another name: {request.option('name', free)}"
            return self._output(already_done=True, next_step=once_more)
        self._refuse_foreign()
        self._refuse_stopped()
        self._refuse_unsettled()
        self.pending = self._count()
        return self._output(dry_run=True) if request.dry_run else None

    def deliver(
        self,
        handler: Handler | None = None,
        stop: Event | None = None,
        *,
        ended: Callable[[Part, str | None], object] = lambda *_: None,
    ) -> BackfillOutput:
        """Deliver it, once it was prepared. Raises: as `backfill`.

        Args:
            ended: called with each part that delivers no more now: it is finished, or its `error` says why not;
                and with what to do about one that was paused or halted.
        """
        if handler is None:
            _ = self.poller.handler  # one that cannot be imported is an error before anything is written
        self._claim()
        self._begin()
        if self.request.retry:
            for part in self.parts:
                part.retry()
        self._run(handler, stop, ended)
        return self._output(next_step=self._next_step())

    # --- what was asked for ----------------------------------------------------------------------------------------

    def _range(self) -> Range:
        found = Range(self._end("begins", self.request.begins), self._end("ends", self.request.ends))
        if direction(found.low, found.high) in (SAME, BACK):
            option, begins, ends = self.request.option, found.low.value, found.high.value
            raise WrongArgument(
                f"{option('begins', begins)} does not lie before {option('ends', ends)}.",
                next_step=f"Rows of the value of {option('begins')} are in the range, "
                f"those of {option('ends')} are not.",
            )
        return found

    def _end(self, name: str, value: str | int | date) -> Cursor:
        option = self.request.option(name)
        if isinstance(value, bool) or not isinstance(value, str | int | date):
            raise WrongArgument(f"{option}: {shown(value)} is neither text, a whole number nor a time.")
        try:
            text = value.isoformat() if isinstance(value, date) else str(value)
            return self._whole.parse_cursor(clean(text, option), None)
        except SourceUnavailable:
            raise
        except SourceError as error:
            raise WrongArgument(f"{option}: {error.message}", next_step=error.next_step) from None
        except (OverflowError, ValueError):  # a ValueError: a number of more digits than Python writes
            raise WrongArgument(f"{option}: {shown(value)} is out of the range of the column.") from None

    def _named(self) -> str:
        """Its name; the default holds the range and the source, so that each has one of its own."""
        name, option = self.request.name, self.request.option("name")
        if name is None:
            ends = self.range.low.value, self.range.high.value
            return default_name(self.poller.name, *ends, self._whole.describe().as_configured().fingerprint())
        if not is_name(clean(name, option)) or len(name) > LONGEST_NAME:
            raise WrongArgument(
                f"{option}: {name[:80]!r} is not a name: 1 to {LONGEST_NAME} lower-case letters, digits, hyphens."
            )
        if name in self._taken:
            raise WrongArgument(
                f"{option}: {name!r} is a configured poller; a backfill has a document of its own.",
                next_step="Name another.",
            )
        return name

    def _make_parts(self, count: int) -> None:
        option = self.request.option
        try:
            ranges = self._ranges(count) if count > 1 else [self.range]
        except ValueError:
            raise WrongArgument(
                f"{option('parallel')}: {self.range.low.value} to {self.range.high.value} cannot be cut into parts: "
                "only times and whole numbers can.",
                next_step=f"Leave {option('parallel')} out, or run several backfills of smaller ranges.",
            ) from None
        for number, stretch in enumerate(ranges, 1):
            name = self.name if count == 1 else self.name + part_suffix(number, count)
            self.parts.append(Part(self.poller, name, self._whole.another(), stretch, by=self._by))

    def _ranges(self, count: int) -> list[Range]:
        """Cut as it was begun, or, if it was not, as the rows stand now."""
        if self.begun_with is None:
            ranges = self.range.parts(self._whole, count)
            if any(one.high.tiebreaker is not None for one in ranges):
                self._cuts = [one.high for one in ranges[:-1]]
            return ranges
        self._cuts = self._cuts_of(count)
        return self.range.cut(self._cuts) if self._cuts else self.range.split(self._whole, count)

    def _cuts_of(self, count: int) -> list[Cursor]:
        """Where it was cut between rows, as the first of its documents says that is there."""
        poller = self.poller
        for number in range(1, count + 1):
            operator = operator_of(poller, self._by, name=self.name + part_suffix(number, count))
            copy = operator.file.read()
            found = None if copy is None else recognised(operator.file.poller_name, operator.file.location, copy)
            if found is not None:
                return list(found.cuts)
        return []

    # --- what is refused -------------------------------------------------------------------------------------------

    def _refuse_foreign(self) -> None:
        """Raises: FingerprintMismatch, if the poller's own checkpoint belongs to another source than the configured
        one: then nothing runs (sources.md, "Fingerprint")."""
        with suppress(StateCorrupt):  # what stands there says nothing of a source
            copy = operator_of(self.poller, self._by).file.read()
            if copy is not None:
                check_fingerprint(self.poller.name, copy.state, self._whole)

    def _refuse_stopped(self) -> None:
        """Raises: Refused, where every part that is not finished was paused, or was halted and is not tried again."""
        left = self.left
        if any(self._goes_on(part) for part in left):
            return
        paused = next((part.paused for part in left if part.paused), None)
        if paused is not None and not any(part.halted and not part.paused for part in left):
            raise self._refused_as(paused)
        error = next((part.state.delivery.last_error for part in left if part.state and part.halted), None)
        why = f": {error.type}{': ' + error.message if error.message else ''}".rstrip(".") if error else ""
        raise Refused(f"{self.name} is halted{why}. Nothing was delivered.", next_step=self._once_fixed)

    def _refuse_unsettled(self) -> None:
        """Raises: Refused, where rows may still appear below the end."""
        bound = self._whole.bound()
        if bound.value is not None and not is_settled(bound, self.range.high):
            raise Refused(
                unsettled(bound, self._end_of(self.range)),
                next_step=f"Nothing was delivered. Name an earlier {self.request.option('ends')}, or wait.",
            )

    @property
    def left(self) -> list[Part]:
        """The parts that are not finished."""
        return [part for part in self.parts if not part.finished]

    def _goes_on(self, part: Part) -> bool:
        return part.paused is None and (self.request.retry or not part.halted)

    def _count(self) -> tuple[int, bool] | None:
        """Rows that are to be delivered now, and whether there are more; None if they cannot be counted."""
        counts = [self.count_of(part) for part in self.left if self._goes_on(part)]
        known = [one for one in counts if one is not None]
        return None if len(known) < len(counts) else (sum(n for n, _ in known), any(more for _, more in known))

    def count_of(self, part: Part) -> tuple[int, bool] | None:
        """Rows of a part that will be delivered, and whether there are more; None if they cannot be counted."""
        after = None if part.state is None else part.state.checkpoint.cursor
        return pending(self._whole, after, part.range)

    def _claim(self) -> None:
        """Claim its beginning. Raises: Refused, if another call has just begun it, in another number of parts."""
        if self.begun_with is not None:
            return
        store, count, now = self.poller.store, len(self.parts), self.poller.runtime.utcnow()
        begun = claim(self.name, count, store, self.poller.app_name, by=self._by, at=now)
        if begun != count:
            raise Refused(
                f"Another call has just begun {self.name} with {self.request.option('parallel', begun)}. Nothing was "
                "delivered.",
                next_step=f"To go on with it: {self.request.again} again.",
            )

    def _begin(self) -> None:
        """Make the documents that are not there. Raises: Refused, if a part was paused before all of them were there:
        who paused the backfill by its name found no other, and meant all of it."""
        if all(part.state is not None for part in self.parts):
            return
        for part in self.parts:
            part.begin(self.poller.name, self.range, self._cuts, rename=self._rename)
        for part in self.parts:
            part.look(self._rename)
        paused = next((part.paused for part in self.parts if part.paused), None)
        if paused is not None:
            raise self._refused_as(paused)

    # --- delivery --------------------------------------------------------------------------------------------------

    def _run(self, handler: Handler | None, stop: Event | None, report: Callable[[Part, str | None], object]) -> None:
        """All parts at once, each to its end."""
        parts = {part.poller: part for part in self.left}

        def ended(end: worker.Ended[LivePoller]) -> None:
            part = parts[end.poller]
            part.end = end
            if end.ok:
                try:
                    part.finish(self._end_of(part.range))
                except PollerError as refused:
                    part.end = replace(end, outcome=None, error=str(refused), exception=refused)
            else:
                with suppress(PollerError):
                    part.look(self._rename)
            report(part, self._advice(part))

        worker.run(parts, "until_idle", stop, handler=handler, ended=ended, max_concurrent=max(1, len(parts)))

    def _refused_as(self, paused: str) -> Refused:
        return Refused(f"{self.name} was {paused}. Nothing was delivered.", next_step=self._once_resumed)

    # --- what came of it -------------------------------------------------------------------------------------------

    def _end_of(self, stretch: Range) -> str:
        return self.request.option("ends", stretch.high.value)

    @property
    def _rename(self) -> str:
        return f"Give this backfill another name: {self.request.option('name', 'NEW')}."

    @property
    def _once_fixed(self) -> str:
        return f"Fix it, then {self.request.again} with {self.request.option('retry')}."

    @property
    def _once_resumed(self) -> str:
        return f"To go on: {self.request.command('resume', self.name)}; then {self.request.again} again."

    def _advice(self, part: Part) -> str | None:
        """What to do about a part that was paused or halted; None for any other."""
        return self._once_resumed if part.paused is not None else self._once_fixed if part.halted else None

    def _next_step(self) -> str | None:
        left = self.left
        if not left:
            return None
        stopped = sorted((part for part in left if part.paused or part.halted), key=lambda part: part.paused is None)
        unfinished = next((part.end.exception for part in left if part.end is not None and part.end.exception), None)
        if not stopped and isinstance(unfinished, Refused):
            return unfinished.next_step
        again = f"{self.request.again} again to go on."
        return self._advice(stopped[0]) if stopped else again[0].upper() + again[1:]

    def _output(
        self, *, already_done: bool = False, dry_run: bool = False, next_step: str | None = None
    ) -> BackfillOutput:
        output = BackfillOutput(
            name=self.name,
            poller=self.poller.name,
            app_name=self.poller.app_name,
            dry_run=dry_run,
            already_done=already_done,
            finished=not self._empty and not self.left,
            begins=self.range.low.value,
            ends=self.range.high.value,
            pending=None if self.pending is None else self.pending[0],
            pending_capped=self.pending is not None and self.pending[1],
            rows=sum(part.rows for part in self.parts),
            parts=[part.output() for part in self.parts],
        )
        output._next_step = next_step
        return output
