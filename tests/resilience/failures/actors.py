"""A process whose handler fails by the kinds of its rows, and while what it calls is down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenlet import GreenletExit

from poller import Batch, Reject, RetryLater
from poller.model.document import State
from poller.model.verdict import Report
from tests.resilience.failures.call import Call
from tests.resilience.failures.table import AskedSource, ChangingSource
from tests.resilience.simulation.actors import HandlerError, Worker

if TYPE_CHECKING:
    from tests.resilience.failures.schedule import FailureSchedule


class FailingWorker(Worker):
    """One place where the poller runs."""

    def __init__(self, schedule: FailureSchedule, number: int) -> None:
        super().__init__(schedule, number)
        self._stage = schedule
        self._truth = schedule.failure_laws.truth

    def make_source(self) -> ChangingSource:
        stage, process = self._stage, self.process
        made = AskedSource if stage.failures.asks else ChangingSource
        return made(stage.changing, stage.trouble, self._world, process, stage.failure_laws.looked)

    def _handle(self, batch: Batch) -> Any:
        """The user's function."""
        stage, process, runtime, rng = self._stage, self.process, self._runtime, self._rng
        laws, plan, ttl = stage.failure_laws, stage.failures, stage.failures.ttl
        tenure: Any = batch._lease
        call = self._call(batch, tenure.state)
        again = " again" if batch.retry else f" in lane {batch.standing.lane}" if call.lanes > 1 else ""
        self._count("a lane's batch" if call.lanes > 1 else "a batch alone")
        self._world.say(process.name, "handles %s%s, attempt %s", [row.id for row in call.rows], again, batch.attempt)
        laws.calling(process, tenure.owner_id, batch, call, batch.fencing_token)
        if not stage.calm:
            chance = rng.random()
            if chance < plan.gil:
                self._count("gil")
                self._world.stop(process, rng.uniform(0.5, 3.0) * ttl)
            elif chance < plan.gil + plan.overstays:
                self._count("overstay")
                runtime.sleep(rng.uniform(1.0, 3.0) * ttl)
        runtime.sleep(rng.random() * plan.work * ttl)
        answer, call.report = self._behaves(batch, call)
        if process.dead:
            raise GreenletExit
        laws.called(tenure.owner_id, batch.batch_id, call, batch.fencing_token)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _call(self, batch: Batch, known: State) -> Call:
        history = self._truth.table.history
        versions = {(version.pk, version.stamp): version for version in history.values()}
        rows = tuple(versions[int(row["id"]), int(row["changed"])].facts for row in batch)
        waits = known.aside if batch.retry else (*known.aside, *known.quarantine) if batch.replay else ()
        again = next((row for row in waits if row.id == rows[0].id), None)
        if batch.retry and again is None:
            self._world.fail(f"{rows[0].id} is tried, and the process knows it not to be aside")
        return Call(rows, known, retries=again, replays=batch.replay, lanes=batch.standing.lanes)

    def _behaves(self, batch: Batch, call: Call) -> tuple[Any, Report]:
        """What the handler returns or raises, and what that is to mean."""
        world, plan, rng = self._world, self._stage.failures, self._rng
        if world.now < self._stage.down_until:
            self._count(f"down {plan.down}")
            if plan.down == "named":
                return self._named(batch, batch.rows, ()), Report(failed=tuple(row.id for row in call.rows))
            return self._later() if plan.down == "later" else (HandlerError("down"), Report("raised"))
        if not self._stage.calm and rng.random() < plan.flaps:
            self._count("flap")
            return HandlerError("flaps"), Report("raised")
        failed, rejected = [], []
        for row, facts in zip(batch.rows, call.rows, strict=True):
            kind = self._truth.table.kinds.get(int(row["id"]), "ok")
            if kind != "ok":
                self._count(f"kind {kind}")
            if kind == "crash":
                world.kill(self.process)
                raise GreenletExit
            if kind == "bad":
                return HandlerError("bad"), Report("raised")
            if kind == "later":
                return self._later()
            if kind == "reject":
                self._stage.failure_laws.rules.rejected.add(facts.id)
                return Reject(row, "no"), Report("rejected", rejected=(facts.id,))
            if kind == "named":
                failed.append((row, facts.id))
            if kind == "rejects":
                self._stage.failure_laws.rules.rejected.add(facts.id)
                rejected.append((row, facts.id))
        named = Report(failed=tuple(id_ for _, id_ in failed), rejected=tuple(id_ for _, id_ in rejected))
        return self._named(batch, [row for row, _ in failed], [row for row, _ in rejected]), named

    def _later(self) -> tuple[RetryLater, Report]:
        seconds = self._rng.randint(1, 4)
        return RetryLater("down", after=f"{seconds}s"), Report("later", seconds=seconds)

    def _named(self, batch: Batch, failed: Any, rejected: Any) -> Any:
        """In one of the two ways in which rows can be named."""
        for row in rejected:
            batch.reject(row, "no")
        if rejected or self._rng.random() < 0.5:
            for row in failed:
                batch.fail(row, HandlerError("named"))
            return None
        return {"batchItemFailures": [{"itemIdentifier": batch.key(row)} for row in failed]}
