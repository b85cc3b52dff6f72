"""A command held between two of its steps, somebody else who acts completely meanwhile, and the laws that hold after.

Either the other's write came first, and the command reports exactly the state that it replaced; or the command came
first, and the other met what it had written. Nothing in between.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from poller import Batch, TickResult, load_app
from poller.errors import PollerError
from tests.cli.console import Console
from tests.cli.crashes import Place
from tests.cli.project import Ended, Project

ROWS, BATCH = 10, 2
OURS, OTHERS = "ours", "another's"
"""Reasons, by which records are distinguished."""
ANEW = {"reset-to-checkpoint", "checkpoint", "undo"}
"""Commands that also write a document that is not there."""


@dataclass(frozen=True)
class Case:
    """A command, and what it leaves.

    Attributes:
        name: its id. at: the last row before the checkpoint afterwards, None where it stays. target: whose document it
        changes. prepare: what must be there first; six of ten rows were delivered. fenced: whether it raises the
        token, and what it replaces is kept. foreign: whether the checkpoint belongs to another source before.
    """

    name: str
    command: tuple[str, ...]
    at: int | None
    target: str = "orders"
    prepare: Callable[[Place], object] = lambda _: None
    fenced: bool = True
    foreign: bool = False


class Worker:
    """A tick beside the command, in a thread of its own.

    Attributes:
        seen: the rows it was handed. result, error: what its tick came to.
    """

    def __init__(self, place: Place, poller: str, config: str = "poller.toml") -> None:
        self.seen: list[int] = []
        self.result: TickResult | None = None
        self.error: PollerError | None = None
        self._environ = {**os.environ, **place.project.environ, **place.beside}
        self._config = place.project.folder / config
        self._poller = poller
        self._in_hand, self._free = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    @property
    def outcome(self) -> str:
        return self.result.outcome if self.result else f"{self.error}"

    def begin(self) -> None:
        """Until it has a batch in hand, or has ended without one."""
        self._thread.start()
        assert self._in_hand.wait(60)

    def finish(self) -> None:
        """It is done with its batch, and its tick ends."""
        self._free.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def tick(self) -> str:
        self._free.set()
        self._work()
        return self.outcome

    def drain(self) -> list[int]:
        """Ticks until there is nothing left to deliver. The rows."""
        with load_app(self._config, self._environ, observers=()) as app:
            poller = app.poller(self._poller)
            self._free.set()
            while (result := poller.tick(self._handle)).outcome == "delivered":
                pass
        assert result.outcome == "idle", result
        return self.seen

    def _handle(self, batch: Batch) -> None:
        self.seen += [row["id"] for row in batch]
        self._in_hand.set()
        assert self._free.wait(60)

    def _work(self) -> None:
        try:
            with load_app(self._config, self._environ, observers=()) as app:
                self.result = app.poller(self._poller).tick(self._handle)
        except PollerError as error:
            self.error = error
        finally:
            self._in_hand.set()


@dataclass
class Scene:
    """One race.

    Attributes:
        console: another operator's. worker: whoever works beside the command.
    """

    place: Place
    case: Case
    console: Console = field(init=False)
    worker: Worker | None = None

    def __post_init__(self) -> None:
        project = self.place.project
        self.console = Console(Project(project.folder, environ={**project.environ, **self.place.beside}))

    @property
    def body(self) -> bytes | None:
        return self.place.body(self.case.target)

    def hire(self) -> Worker:
        """Of before the source was changed, where it was."""
        old = self.place.project.folder / "old.toml"
        self.worker = Worker(self.place, self.case.target, old.name if old.exists() else "poller.toml")
        return self.worker

    def other(self, *arguments: str) -> Ended:
        return self.console.run(*arguments, "--yes", "--reason", OTHERS)


# --- who else acts -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Intruder:
    """Somebody else. `before` the command starts, `meanwhile` it is held, and `after` it ended; `breaks`: the command
    is asked to break a lease."""

    name: str
    meanwhile: Callable[[Scene], object] = lambda _: None
    before: Callable[[Scene], object] = lambda _: None
    after: Callable[[Scene], object] = lambda _: None
    breaks: bool = False


def _finish(scene: Scene) -> None:
    assert scene.worker is not None
    scene.worker.finish()


def _pause(scene: Scene) -> None:
    if scene.case.command[0] == "resume":
        scene.other("resume", scene.case.target)
    scene.other("pause", scene.case.target)


def _delete(scene: Scene) -> None:
    if scene.body is not None:
        scene.place.put(scene.case.target, None)


def _roll_back(scene: Scene) -> None:
    """An older copy of the same tenure: the second row is the last one before its checkpoint."""
    body = scene.body
    if body is not None and position(body):
        state = json.loads(body)
        state["checkpoint"]["cursor"]["tiebreaker"] = {"id": 2}
        scene.place.replace(scene.case.target, freed(json.dumps(state).encode()))


INTRUDERS = {
    one.name: one
    for one in (
        Intruder("a worker commits", lambda scene: scene.hire().tick()),
        Intruder("a worker begins", lambda scene: scene.hire().begin(), after=_finish),
        Intruder("a worker ends", _finish, before=lambda scene: scene.hire().begin(), breaks=True),
        Intruder("a worker is broken", before=lambda scene: scene.hire().begin(), after=_finish, breaks=True),
        Intruder("another pauses", _pause),
        Intruder("another resets", lambda scene: scene.other("reset-to-beginning", scene.case.target)),
        Intruder("another does the same", lambda scene: scene.other(*scene.case.command)),
        Intruder("it is deleted", _delete),
        Intruder("it is rolled back", _roll_back),
    )
}


# --- what a document says ------------------------------------------------------------------------------------------


def position(body: bytes | None) -> int:
    """The last row before the checkpoint; 0 for the beginning."""
    cursor = json.loads(body)["checkpoint"]["cursor"] if body else None
    return cursor["tiebreaker"]["id"] if cursor else 0


def _source(body: bytes | None) -> Any:
    return json.loads(body)["source_fingerprint"] if body else None


def freed(body: bytes) -> bytes:
    """As if the lease's time had run out."""
    state = json.loads(body)
    state["lease"] |= {"owner_id": None, "released_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"}
    return json.dumps(state).encode()


def facts_of(body: bytes) -> dict[str, Any]:
    """What an output says of a state."""
    state = json.loads(body)
    return {
        "cursor": state["checkpoint"]["cursor"],
        "generation": state["checkpoint"]["generation"],
        "fencing_token": state["lease"]["fencing_token"],
        "owner_id": state["lease"]["owner_id"],
        "source_fingerprint": state["source_fingerprint"],
        "paused": state["control"]["paused"],
        "halted": state["control"]["halted"],
    }


def at_work(body: bytes) -> bool:
    """Whether a worker holds the lease."""
    owner = json.loads(body)["lease"]["owner_id"]
    return owner is not None and not owner.startswith("operator/")


# --- the race, and its laws ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """How a race went: the document `before` it, `held` (as the command was), `met` (as it was let go), `left` by it,
    and at the `end`, when the other was done as well."""

    before: bytes | None
    held: bytes | None
    met: bytes | None
    left: bytes | None
    end: bytes | None
    ended: Ended

    @property
    def first(self) -> bool:
        """Whether the command wrote first."""
        return self.held != self.before

    @property
    def made(self) -> bool:
        return self.first or self.left != self.met

    @property
    def replaced(self) -> bytes | None:
        return self.before if self.first else self.met

    @property
    def wrote(self) -> bytes | None:
        return self.held if self.first else self.left


def race(place: Place, case: Case, intruder: Intruder, step: int, when: str) -> Outcome:
    """One race, from what the place remembers; every law is asserted."""
    scene = Scene(place, case)
    place.restore()
    intruder.before(scene)
    before = scene.body
    options = ("--break-lease",) if intruder.breaks and case.fenced else ()
    with place.held(step, when, *case.command, "--yes", "--reason", OURS, "--json", *options) as let_go:
        held = scene.body
        intruder.meanwhile(scene)
        met = scene.body
        ended = let_go()
    left = scene.body
    intruder.after(scene)
    outcome = Outcome(before, held, met, left, scene.body, ended)
    _never_a_mixture(scene, outcome, broken=intruder.breaks)
    if scene.worker is not None:
        _worker_lost_nothing(scene.worker, case, intruder, outcome)
    _goes_on(scene, outcome, undo=(step + (when == "after")) % 2 == 0)
    return outcome


def _never_a_mixture(scene: Scene, outcome: Outcome, *, broken: bool) -> None:
    case, ended = scene.case, outcome.ended
    said = (ended.out, ended.err)
    assert "Traceback" not in ended.err
    if outcome.first:
        assert ended.code == 0, said
        assert outcome.left == outcome.met, "once it is made, it touches the document no more"
    else:
        assert ended.code in _lawful(case, outcome, broken=broken), said
    records = [one for one in _history(scene) if one.get("reason") == OURS]
    if not outcome.made:
        assert records == []
        if ended.code == 0:
            assert outcome.met is not None
            here = facts_of(outcome.met)
            assert (ended.json["changed"], ended.json["undo"]) == (False, None)
            assert {**ended.json["before"], **here} == ended.json["before"] == ended.json["after"]
        else:
            assert ended.out == ""
            assert ended.err.splitlines()[-1].startswith("poller: ")
        return
    output, replaced, wrote = ended.json, outcome.replaced, outcome.wrote
    assert wrote is not None
    assert output["changed"] is True
    assert {**output["after"], **facts_of(wrote)} == output["after"]
    assert [one["id"] for one in records] == [output["id"]]
    (record,) = records
    assert {key: record["after"][key] for key in facts_of(wrote)} == facts_of(wrote)
    if case.at is not None:
        assert position(wrote) == case.at
    if replaced is None:
        assert (output["before"], output["undo"]) == (None, None)
        return
    assert {**output["before"], **facts_of(replaced)} == output["before"], "it reports what it replaced"
    assert {key: record["before"][key] for key in facts_of(replaced)} == facts_of(replaced)
    if not case.fenced:
        assert output["backup"] is None
        assert position(wrote) == position(replaced)
        return
    assert output["after"]["fencing_token"] > output["before"]["fencing_token"]
    assert output["after"]["paused"] == output["before"]["paused"]
    assert scene.place.stored(output["backup"]) == replaced, "the backup is what was replaced"
    if case.at is not None:
        back = position(replaced) - case.at
        assert (output["effect"]["redelivered"], output["effect"]["skipped"]) == (max(0, back), 0), "nothing unseen"


def _lawful(case: Case, outcome: Outcome, *, broken: bool) -> set[int]:
    """The exit codes that the command may have where the other wrote first."""
    met = outcome.met
    if met is None:
        anew = {0} if case.command[0] in ANEW else set()
        placed = {3} if case.command[0] == "reset-to-cursor" else set()
        return anew if outcome.before is None else {1, *anew, *placed}
    if outcome.before is None:
        return {0, 1, 3} if case.command[0] == "reset-to-checkpoint" else {1, 3}
    if case.fenced and at_work(met) and not broken:
        return {3}
    if json.loads(met)["control"]["last_change"].get("undid"):
        return {0, 3}  # it was taken back already
    if case.at is not None and case.at > position(met) and case.command[0] != "undo":
        return {3}  # an undo skips nothing: what lies between was delivered before
    return {0}


def _history(scene: Scene) -> list[dict[str, Any]]:
    """What `history` shows: the trail, and the change that only the document holds as yet."""
    found = [json.loads(line) for line in scene.place.store.lines(f"audit/shop/{scene.case.target}.jsonl")]
    body = scene.body
    if body is not None and json.loads(body)["control"]["last_change"] is not None:
        found.append(json.loads(body)["control"]["last_change"])
    return list({one["id"]: one for one in found}.values())


def _worker_lost_nothing(worker: Worker, case: Case, intruder: Intruder, outcome: Outcome) -> None:
    """It was handed rows in order from where it began, and either its commit stands or it was fenced."""
    begun = outcome.before if intruder.breaks else outcome.held
    assert worker.seen == [position(begun) + n for n in range(1, len(worker.seen) + 1)]
    if not worker.seen:
        assert worker.outcome != "delivered"
    elif intruder.breaks and case.fenced and (outcome.first or intruder.after is _finish):
        assert worker.outcome == "lease_lost"
        assert outcome.end == outcome.left == outcome.wrote, "its late commit was refused"
    elif outcome.made and outcome.wrote is not None and json.loads(outcome.wrote)["control"].get("cancelled"):
        assert worker.outcome == "paused"
        assert position(outcome.end) == position(begun), "what it had in hand is not committed"
    else:
        assert worker.outcome in {"delivered", "paused"}
        assert position(outcome.end if intruder.after is _finish else outcome.met) == worker.seen[-1]


def _goes_on(scene: Scene, outcome: Outcome, *, undo: bool) -> None:
    """The way back that was printed works, and a worker delivers everything behind the checkpoint."""
    place, target, end = scene.place, scene.case.target, outcome.end
    if end is None:
        return
    at = position(end)
    undo = (
        undo
        and outcome.made
        and outcome.ended.json["undo"] is not None
        and outcome.replaced is not None
        and scene.case.fenced
        and end == outcome.wrote
    )
    if scene.case.foreign and (undo or _source(end) == _source(outcome.before)):
        place.project.write((place.project.folder / "old.toml").read_text())
    if undo:
        scene.console.undo(outcome.ended.json)
        at = position(outcome.replaced)
    body = scene.body
    assert body is not None
    assert position(body) == at
    place.replace(target, freed(body))
    if json.loads(body)["control"]["paused"]:
        assert scene.other("resume", target).code == 0
    assert Worker(place, target).drain() == list(range(at + 1, ROWS + 1)), "nothing behind it is skipped"
