"""What a handler does with rows, by their kind, and its fenced target."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from poller.handler.batch import Standing
from poller.model import applied
from poller.model.aside import RowFacts
from poller.model.document import State, WaitingRow
from poller.model.row_ids import id_of_key
from poller.model.verdict import Report
from poller.sinks import ledger
from poller.sinks.ledger import LedgerRow
from tests.resilience.quarantine.laws import Laws
from tests.resilience.quarantine.world import World, place

if TYPE_CHECKING:
    from tests.resilience.quarantine.tick import Writer

Outage: TypeAlias = Literal["raised", "later", "named"]


class Died(Exception):
    """The handler ended its process."""


class Cancelled(Exception):
    """A person cancelled the call."""


@dataclass
class Call:
    """One call of a handler: rows, the document that was known then, and the position of the last row; `lanes`: of how
    many batches that are handled at once it is one."""

    rows: Sequence[RowFacts]
    state: State
    through: int
    retries: WaitingRow | None = None
    replays: bool = False
    report: Report = field(default_factory=Report)
    lanes: int = 1

    @property
    def generation(self) -> int:
        """Of the rows: a row that waited belongs to the generation it was listed in."""
        return self.state.checkpoint.generation if self.retries is None else self.retries.generation

    @property
    def done(self) -> frozenset[str]:
        """Ids of the rows that it reported done."""
        if self.report.end != "returned":
            return frozenset()
        return frozenset(row.id for row in self.rows) - {*self.report.failed, *self.report.rejected}

    @property
    def failed_alone(self) -> bool:
        """Whether one row was handed over, and failed."""
        return len(self.rows) == 1 and (self.report.end == "raised" or bool(self.report.failed))


class Handler:
    """The user's function."""

    def __init__(self, world: World, laws: Laws, *, outage: Outage = "raised", overstays: float = 0.0) -> None:
        self.world = world
        self.laws = laws
        self.outage = outage
        self.overstays = overstays

    def run(self, writer: Writer, call: Call, *, older: bool = False) -> Generator[float, None, None]:
        """Call it under the lease of `writer`. Raises: Died, Cancelled."""
        world = self.world
        self.laws.handing(writer, call, older=older)
        world.say(writer.name, f"hands over {[row.id for row in call.rows]}{' again' if call.retries else ''}")
        yield 30.0 if world.rng.random() < self.overstays else world.rng.random()
        if self._cancelled(writer):
            raise Cancelled
        report = self._behaves(call)
        if older and (report.end != "returned" or report.failed or report.rejected):
            report = Report("raised")
        if not self._applies(writer, call, report):
            report = Report("raised")
        yield world.rng.random() * 0.2
        if self._cancelled(writer):
            raise Cancelled
        call.report = report
        self.laws.returned(writer, call)

    def _cancelled(self, writer: Writer) -> bool:
        """What a heartbeat finds."""
        return self.world.state.control.cancelled == writer.token and self.world.rng.random() < 0.7

    def _behaves(self, call: Call) -> Report:
        world = self.world
        if world.now < world.outage:
            world.seen["outage"] += 1
            if self.outage == "later":
                return Report("later", seconds=1 + world.rng.random() * 3)
            return Report("raised") if self.outage == "raised" else Report(failed=tuple(row.id for row in call.rows))
        failed, rejected = [], []
        for row in call.rows:
            kind = world.table.kinds.get(int(row.pk), "ok")
            if kind != "ok":
                world.seen[kind] += 1
            if kind == "crash":
                raise Died
            if kind == "bad":
                return Report("raised")
            if kind == "later":
                return Report("later", seconds=1 + world.rng.random())
            if kind == "reject":
                self.laws.rejected.add(row.id)
                return Report("rejected", rejected=(row.id,))
            if kind == "named":
                failed.append(row.id)
            if kind == "rejects":
                self.laws.rejected.add(row.id)
                rejected.append(row.id)
        return Report(failed=tuple(failed), rejected=tuple(rejected))

    def _applies(self, writer: Writer, call: Call, report: Report) -> bool:
        """One transaction on the fenced target; whether it was let in."""
        target = self.world.target
        if target.token > writer.token:
            self.world.seen["fenced"] += 1
            return False
        if report.end != "returned":
            return True
        target.token = writer.token
        standing = Standing(
            generation=call.generation,
            settled=applied.settled(call.state),
            through=call.through,
            held=frozenset(map(id_of_key, applied.waiting(call.state))),
        )
        bad = {*report.failed, *report.rejected}
        keys = ledger.hashed(row.id for row in call.rows)
        named = {index for index, row in enumerate(call.rows) if row.id in bad}
        plan = ledger.plan(target.entries, keys, standing=standing, token=writer.token, named=named)
        if not plan.fresh:
            return True
        for index in plan.fresh:
            row = call.rows[index]
            if row.id not in bad:
                self.laws.applies(call.generation, row, replays=call.replays)
                target.rows[int(row.pk)] = (call.generation, place(row.cursor))
                target.times[call.generation, row.id] += 1
        packed = b"".join(keys[index] for index in plan.fresh) + plan.carried
        target.entries = [entry for entry in target.entries if entry.id not in plan.replaced]
        self.laws.pruned(standing)
        target.last += 1
        target.entries.append(LedgerRow(target.last, 0, call.generation, writer.token, plan.through, packed))
        return True
