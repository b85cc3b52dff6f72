"""`backfill`: a range of a table delivered once more, or for the first time, beside the live poller.

Each part of it is a poller of its own, with its own state document and the live poller's handler: leases, attempts and
commits are those of every poller, so it resumes where it was killed. Its document is made before its first row is read,
and says from then on whose range it is (`poller_cli.backfills`), so that it can be found and paused; when a part has
come to its end, that is written there too.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, cast

from poller.admin.changes import identity
from poller.admin.cursors import is_foreign
from poller.admin.editor import Operator
from poller.admin.effects import BACK, SAME, direction
from poller.admin.refusals import Refused, WrongArgument, clean
from poller.admin.wired import operator_of
from poller.config.types import is_name
from poller.delivery.preflight import check_fingerprint
from poller.errors import FingerprintMismatch, SourceError, SourceUnavailable, StateCorrupt
from poller.lease.state_file import Conflict, Copy
from poller.model import transitions
from poller.model.changes import to_resume
from poller.model.cursor import Cursor
from poller.model.document import Change, State
from poller.model.fingerprint import differences
from poller.model.stamps import stamp, to_the_second
from poller.ports import Bound
from poller.sources import SqlSource
from poller.wiring import open_source
from poller_cli.backfills import FINISHED, LONGEST_NAME, Backfills, default_name, free_name, origin, part_suffix
from poller_cli.ranges import Range, RangeSource, is_settled, pending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from poller.app import App, Poller

MOST_PARTS = 32


@dataclass
class Part:
    """One stretch, with the poller that delivers it."""

    poller: Poller
    source: RangeSource
    range: Range
    operator: Operator
    state: State | None = None
    rows: int = 0
    error: str | None = None

    @property
    def finished(self) -> bool:
        """Whether its document says that every row was delivered."""
        return self.state is not None and FINISHED in self.state.checkpoint.metadata

    def look(self) -> None:
        """Read the document. Raises: FingerprintMismatch (it is of another range or source), StoreError."""
        copy = self.operator.file.read()
        self.state = None if copy is None else copy.state
        own = self.source.describe()
        if copy is None or not is_foreign(copy.state, own):
            return
        found = differences(copy.state.source, own)
        shown = "; ".join(map(str, found))
        raise FingerprintMismatch(
            f"The {self.operator.file.location} is of another source or range ({shown or 'not described'}).",
            stored=copy.state.source_fingerprint,
            configured=own.fingerprint(),
            differences=found,
            next_step="Nothing was changed. Give this backfill another name: --as NEW.",
        )

    @property
    def paused(self) -> str | None:
        """Who paused it, and why; None where nobody did."""
        control = None if self.state is None else self.state.control
        if control is None or not control.paused:
            return None
        at = f" at {to_the_second(control.at)}" if control.at else ""
        return f"paused by {control.by or 'unknown'}{at}: {control.reason or 'no reason given'}"

    @property
    def halted(self) -> bool:
        """Whether it was halted because a batch failed too often."""
        return self.state is not None and self.state.control.halted

    def begin(self, of: str, whole: Range, cuts: Sequence[Cursor]) -> None:
        """Make its document, if there is none: a backfill can be found and paused before its first row is delivered.

        Raises: FingerprintMismatch (another was made meanwhile, of another range), StoreError.
        """
        if self.state is not None or any(self.operator.file.traces()):
            return  # one that was deleted is not made anew: its first tick says so
        file, runtime = self.operator.file, self.poller.runtime
        now = file.clock.now()
        made = transitions.create(
            self.poller.name, self.source.describe(), self.range.low, now=now, ttl=file.timing.ttl
        )
        metadata = origin(of, whole, by=self.operator.by, at=now, cuts=cuts)
        made = made.model_copy(update={"checkpoint": made.checkpoint.model_copy(update={"metadata": metadata})})
        try:
            deadline = runtime.monotonic() + file.timing.tenure
            self.state = file.write(None, lambda state, _: state, deadline=deadline, create=made).state
        except Conflict:
            self.look()

    def retry(self) -> None:
        """Take back a halt, and one that would come because a batch was begun too often and never finished; but no
        pause. Raises: StoreError."""
        if self.state is None or self.state.control.paused:
            return
        copy = self.operator.look()
        worn = copy.state.delivery.attempts >= self.poller.options.max_attempts and self.operator.busy(copy) is None

        def resumed(state: State, change: Change, now: datetime) -> State:
            after = to_resume(state, change, now)
            # The lease of one that died has ended; to leave it there would let it begin anew with this very write.
            return (
                transitions.release(after, give_back=False, now=now)
                if worn and state.lease == copy.state.lease
                else after
            )

        if copy.state.control.halted or worn:
            self.state = self.operator.change("resume", resumed, base=copy).after

    def finish(self) -> None:
        """Write down that every row was delivered. Raises: Refused (it cannot be told yet), StoreError."""
        if not self.source.settled():
            raise Refused(unsettled(self.source.bound, self.range.high), next_step="Run it again later.")
        copy = self.operator.look()
        if FINISHED not in copy.state.checkpoint.metadata:
            copy = _after(self.operator.change("backfill", _finished, base=copy).after, copy)
        self.state = copy.state


def _after(state: State, copy: Copy) -> Copy:
    return replace(copy, state=state)


def _finished(state: State, change: Change, now: datetime) -> State:
    metadata = {**state.checkpoint.metadata, FINISHED: stamp(now)}
    done = to_resume(state, change, now)
    return done.model_copy(update={"checkpoint": done.checkpoint.model_copy(update={"metadata": metadata})})


class Backfill:
    """The parts of one backfill of the configured poller `name`.

    Args:
        low, high: what was typed for `--from` and `--to`. new_name: for its documents. parts: how many.
    Raises: WrongArgument, Refused (rows may still appear below `high`), FingerprintMismatch, SourceError, StoreError.
    """

    def __init__(self, app: App, name: str, *, low: str, high: str, new_name: str | None, parts: int) -> None:
        self.app = app
        self.of = app.known(name)
        self._source = cast("SqlSource", app.poller(name).source)
        self.empty = self._is_empty()
        self.range = Range(self._end(low, "--from"), self._end(high, "--to"))
        if direction(self.range.low, self.range.high) in (SAME, BACK):
            raise WrongArgument(
                f"--from {self.range.low.value} does not lie before --to {self.range.high.value}.",
                next_step="Rows of the value of --from are in the range, those of --to are not.",
            )
        self.name = self._named(new_name)
        self.begun_with = self._begun_with()
        self._cuts: list[Cursor] = []
        self.parts = self._parts(self.begun_with or parts)
        for part in self.parts:
            part.look()

    def refuse_unsettled(self) -> None:
        """Raises: Refused, where rows may still appear below the end."""
        bound = self._source.bound()
        if bound.value is not None and not is_settled(bound, self.range.high):
            raise Refused(
                unsettled(bound, self.range.high),
                next_step="Nothing was delivered. Name an earlier --to, or wait.",
            )

    def refuse_foreign(self) -> None:
        """Raises: FingerprintMismatch, where the poller's own checkpoint belongs to another source than the configured
        one: then nothing runs (sources.md, "Fingerprint")."""
        poller = self.app.poller(self.of)
        with suppress(StateCorrupt):  # what stands there says nothing of a source
            copy = operator_of(poller, "backfill").file.read()
            if copy is not None:
                check_fingerprint(poller.name, copy.state, self._source)

    def refuse_stopped(self, *, retry: bool) -> None:
        """Raises: Refused, where every part that is not finished was paused, or was halted and is not tried again."""
        left = [part for part in self.parts if not part.finished]
        if any(self._goes_on(part, retry=retry) for part in left):
            return
        paused = next((part.paused for part in left if part.paused), None)
        if paused is not None and not any(part.halted and not part.paused for part in left):
            raise Refused(f"{self.name} was {paused}. Nothing was delivered.", next_step=self.once_resumed)
        error = next((part.state.delivery.last_error for part in left if part.state and part.halted), None)
        why = f": {error.type}{': ' + error.message if error.message else ''}".rstrip(".") if error else ""
        raise Refused(f"{self.name} is halted{why}. Nothing was delivered.", next_step=self.once_fixed)

    def _goes_on(self, part: Part, *, retry: bool) -> bool:
        return part.paused is None and (retry or not part.halted)

    @property
    def halted(self) -> bool:
        """Whether a part that is not finished was halted."""
        return any(part.halted for part in self.parts if not part.finished)

    @property
    def once_fixed(self) -> str:
        """What to do about a halt."""
        return "Fix it, then run the same command with --retry."

    @property
    def paused(self) -> bool:
        """Whether a part that is not finished was paused."""
        return any(part.paused for part in self.parts if not part.finished)

    @property
    def once_resumed(self) -> str:
        """What to do about a pause."""
        return f"To go on: poller resume {self.name}; then run the same command again."

    @property
    def next_name(self) -> str:
        """One to deliver the range once more by. Raises: StoreError."""
        return free_name(self.app, self.of, longest=LONGEST_NAME - len(part_suffix(MOST_PARTS, MOST_PARTS)))

    def begin(self) -> None:
        """Make the documents that are not there yet. Raises: as `Part.begin`."""
        for part in self.parts:
            part.begin(self.of, self.range, self._cuts)

    def count(self, *, retry: bool) -> tuple[int, bool] | None:
        """Rows that are to be delivered now, and whether there are more; None where the database does not tell."""
        todo = [part for part in self.parts if not part.finished and self._goes_on(part, retry=retry)]
        counts = [self.count_of(part) for part in todo]
        known = [one for one in counts if one is not None]
        return None if len(known) < len(counts) else (sum(n for n, _ in known), any(more for _, more in known))

    def count_of(self, part: Part) -> tuple[int, bool] | None:
        """The same of one part."""
        after = None if part.state is None else part.state.checkpoint.cursor
        return pending(self._source, after, part.range)

    def close(self) -> None:
        """Let go of the parts' connections; the store is the app's."""
        for part in self.parts:
            part.source.close()

    def _is_empty(self) -> bool:
        return not self._source.lag(None, cap=1).pending

    def _end(self, text: str, option: str) -> Cursor:
        try:
            return self._source.parse_cursor(clean(text, option), None)
        except SourceUnavailable:
            raise
        except SourceError as error:
            raise WrongArgument(f"{option}: {error.message}", next_step=error.next_step) from None
        except OverflowError:
            raise WrongArgument(f"{option}: {text[:80]} is out of the range of the column.") from None

    def _named(self, new_name: str | None) -> str:
        """Its name; the default holds the range and the source, so that each has one of its own."""
        longest = LONGEST_NAME - len(part_suffix(MOST_PARTS, MOST_PARTS))
        if new_name is None:
            ends = self.range.low.value, self.range.high.value
            return default_name(self.of, *ends, self._source.describe().as_configured().fingerprint(), longest=longest)
        if not is_name(clean(new_name, "--as")) or len(new_name) > longest:
            raise WrongArgument(
                f"--as: {new_name[:80]!r} is no name: 1 to {longest} lower-case letters, digits, hyphens."
            )
        if new_name in self.app.config.pollers:
            raise WrongArgument(
                f"--as: {new_name!r} is a configured poller; a backfill has a document of its own.",
                next_step="Name another.",
            )
        return new_name

    def _begun_with(self) -> int | None:
        """In how many parts it was begun, if it was."""
        start = f"state/{self.app.config.app_name}/{self.name}"
        for found in self.app.store.names(start):
            rest = found.removeprefix(start).removesuffix(".json")
            if not rest:
                return 1
            part, _, count = rest.removeprefix("-").partition("of")
            if part.isdigit() and count.isdigit() and rest == part_suffix(int(part), int(count)):
                return int(count)
        return None

    def _parts(self, count: int) -> list[Part]:
        try:
            ranges = self._ranges(count) if count > 1 else [self.range]
        except ValueError:
            raise WrongArgument(
                f"--parallel: {self.range.low.value} to {self.range.high.value} cannot be cut into parts: only times "
                "and whole numbers can.",
                next_step="Leave --parallel out, or run several backfills of smaller ranges.",
            ) from None
        return [
            self._part(self.name + ("" if count == 1 else part_suffix(i, count)), one)
            for i, one in enumerate(ranges, 1)
        ]

    def _ranges(self, count: int) -> list[Range]:
        """Cut as it was begun, or, where it was not, as the rows stand now."""
        if self.begun_with is None:
            ranges = self.range.parts(self._source, count)
            if any(one.high.tiebreaker is not None for one in ranges):
                self._cuts = [one.high for one in ranges[:-1]]
            return ranges
        read = Backfills(self.app).read
        begun = (read(self.name + part_suffix(part, count)) for part in range(1, count + 1))
        first = next((one for one in begun if one is not None), None)
        if first is None or not first.cuts:
            return self.range.split(self._source, count)
        self._cuts = list(first.cuts)
        return self.range.cut(self._cuts)

    def _part(self, name: str, range_: Range) -> Part:
        config = self.app.config.pollers[self.of]
        whole = cast("SqlSource", open_source(config, self.of, file=str(self.app.path)))
        source = RangeSource(whole, range_)
        poller = self.app.wire(name, config, source)
        operator = Operator(
            poller.store,
            app_name=poller.app_name,
            poller_name=name,
            runtime=poller.runtime,
            timing=poller.options.timing,
            by=identity(),
            reason=f"{self.of} {range_.words}",
        )
        return Part(poller, source, range_, operator)


def unsettled(bound: Bound | None, high: Cursor) -> str:
    """Why a range is not delivered to its end yet."""
    stands = "is not known yet"
    if bound is not None and bound.value is not None:
        stands = f"is {bound.value}" + (f", held by {bound.held_by}" if bound.held_by else "")
    elif bound is not None and bound.reason:
        stands += f" ({bound.reason})"
    return f"Rows may still appear below --to {high.value}: the bound {stands}."
