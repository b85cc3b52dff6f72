"""The state store behind a network that loses, delays and doubles.

`Server` is the real `MemoryStore` with a clock of its own that gives whole seconds, as `Date` and `Last-Modified` do.
`Client` is what one process sees of it. A request that was sent lands whatever becomes of its sender.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias, TypeVar

from poller.errors import StoreDenied, StoreError, StoreUnavailable, WriteConflict
from poller.ports import Found, Missing, Timeout, Unchanged, Written
from poller.stores import MemoryStore
from tests.resilience.simulation.laws import Laws, Sent
from tests.resilience.simulation.runtime import EPOCH
from tests.resilience.simulation.world import Process, World
from tests.support.documents import delete

Role: TypeAlias = Literal["worker", "operator", "outsider"]
T = TypeVar("T")

FATES = (
    "request lost",
    "answer lost",
    "answer lost",
    "lands late",
    "lands late",
    "sent twice",
    "sent twice, second answer",
    "500 after it was applied",
    "503",
    "dribbles",
    "dribbles",
)


@dataclass
class Network:
    """How bad it is now. Rates are per request; `outage`: nothing gets a good answer before that true time; `far`: how
    many seconds longer an operator's request takes, each way."""

    rate: float = 0.0
    dribbles: float = 0.0
    latency: float = 0.02
    lateness: float = 10.0
    denied: float = 0.0
    outage: float = 0.0
    far: float = 0.0


class Server:
    """The truth. Shows the laws every version of every document."""

    def __init__(self, world: World, laws: Laws, *, state_name: str, skew: float, rate: float, timed: bool) -> None:
        self.world = world
        self.laws = laws
        self.state_name = state_name
        self.network = Network()
        self._skew = skew
        self._rate = rate
        self.memory = MemoryStore(self, server_time=timed)

    def utcnow(self) -> datetime:
        """The server's clock, cut to the second."""
        seconds = self._skew + self._rate * self.world.now
        return EPOCH + timedelta(seconds=seconds // 1)

    def apply(self, sent: Sent) -> Written | WriteConflict:
        """A write arrives."""
        try:
            written = self.memory.write(sent.name, sent.body, if_tag=sent.if_tag)
        except WriteConflict as conflict:
            self.world.say("server", "refused %s from %s", sent.label, sent.client)
            return conflict
        self.world.say("server", "applied %s from %s as tag %s", sent.label, sent.client, written.tag)
        if sent.name == self.state_name:
            self.laws.landed(sent, written.tag, written.modified_at)
        else:
            self.laws.stands_beside(sent.name, sent.body)
        return written

    def remove(self, name: str, if_tag: str) -> WriteConflict | None:
        """A removal of another document than the state arrives."""
        try:
            self.memory.remove(name, if_tag=if_tag)
        except WriteConflict as conflict:
            return conflict
        self.laws.stands_beside(name, None)
        return None

    def body(self) -> bytes | None:
        """The state document's bytes now."""
        found = self.memory.read(self.state_name)
        return found.body if isinstance(found, Found) else None

    def replace(self, body: bytes, what: str) -> None:
        """Somebody else, beside all rules, puts these bytes in the state document's place."""
        found = self.memory.read(self.state_name)
        self.world.say("outsider", what)
        tag = self.memory.write(self.state_name, body, if_tag=found.tag if isinstance(found, Found) else None).tag
        self.laws.replaced(body, tag)

    def forget(self, client: str) -> None:
        """A client deletes the state document, by its own rules: nothing is excused by it."""
        self.world.say("server", "deleted for %s", client)
        delete(self.memory, self.state_name)
        self.laws.document = None

    def delete(self) -> None:
        """Somebody else deletes the state document."""
        self.world.say("outsider", "deletes the document")
        delete(self.memory, self.state_name)
        self.laws.replaced(None, None)


class Client:
    """`StateStore` as one process sees it.

    Attributes:
        writes, exceptions: how many writes and appends this tick has sent, and how many of them even an idle tick may
            send: the first document, its trace, what is known of the bound, the weekly rewrite, whose expired lease
            these freed, and the second stamp of a release that landed late. A record for the audit trail that an
            earlier tick has not got rid of is that one's.
        highest_token: of the writes that it knows to have landed.
        unbelieved: the tag of a release that is known to have landed late, until one more write stamps it.
    """

    def __init__(self, server: Server, process: Process, role: Role) -> None:
        self._server = server
        self._world = server.world
        self._process = process
        self.role = role
        self.name = process.name
        self.writes = 0
        self.exceptions = 0
        self.highest_token = 0
        self.unbelieved: str | None = None
        self.in_flight: Sent | None = None
        self.unresolved: Sent | None = None
        self._refused = False

    @property
    def scope(self) -> int:
        """One tick, or one operator's command: within it no write may start while another is unresolved."""
        return self._process.scope

    def begin(self) -> None:
        """A new tick, or a new command."""
        self._process.scope += 1
        self.writes = self.exceptions = 0
        self.unbelieved = None

    # --- the port --------------------------------------------------------------------------------------------------

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        try:
            seen = self._look(lambda: self._server.memory.read(name, unless=unless), timeout)
        except StoreError:
            self._server.laws.asked_beside(self, name, answered=False)
            raise
        if name == self._server.state_name and self._refused:
            self.unresolved = None
        return seen

    def lines(self, name: str, *, limit: int | None = None) -> list[str]:
        return self._look(lambda: self._server.memory.lines(name, limit=limit), None)

    def names(self, prefix: str) -> Iterator[str]:
        return self._look(lambda: self._server.memory.names(prefix), None)

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        self._world.point(self._process)
        server = self._server
        if name != server.state_name:
            sent = Sent(self.name, self.role, self.scope, name, bytes(body), if_tag, label=name)
            try:
                written = self._change(lambda: server.apply(sent), timeout)
            except StoreError:  # also refused: the next attempt may come too late
                server.laws.asked_beside(self, name, answered=False)
                raise
            server.laws.asked_beside(self, name, answered=True)
            return written
        sent = server.laws.sending(self, name, bytes(body), if_tag)
        self.exceptions += if_tag is None or sent.remembers or sent.stamps or sent.rewrites
        if sent.stamps:
            self.unbelieved = None
        self.in_flight = sent
        try:
            answer = self._change(lambda: server.apply(sent), timeout)
        except StoreError as error:
            if isinstance(error, StoreUnavailable | WriteConflict):
                self.unresolved = sent  # a refused one may have landed before: only a look at the document decides
                self._refused = isinstance(error, WriteConflict)
            raise
        finally:
            self.in_flight = None
        self.unresolved = None
        self.highest_token = sent.document["lease"]["fencing_token"]
        if answer.tag in server.laws.late:
            self.unbelieved = answer.tag
        return answer

    def append(self, name: str, line: str, *, timeout: Timeout | None = None) -> None:
        self._world.point(self._process)
        if self._world.me().scope in (None, self._process.scope):
            self.exceptions += json.loads(line).get("kind") == "takeover" or self._is_first_look(line)
        self._change(lambda: self._server.memory.append(name, line), timeout)

    def _is_first_look(self, line: str) -> bool:
        """Whether it shows that there is a document: the newest change of one that this process saw."""
        record, versions = json.loads(line), self._server.laws.versions.values()
        changes = [document["control"]["last_change"] for document in versions if document]
        return record["kind"] == "seen" or any(change and change["id"] == record["id"] for change in changes)

    def remove(self, name: str, *, if_tag: str, timeout: Timeout | None = None) -> None:
        self._world.point(self._process)
        assert name != self._server.state_name
        self._change(lambda: self._server.remove(name, if_tag), timeout)

    def delete(self, name: str) -> None:
        """No port has it and the code never asks for it; a mutant gives its lease back by it."""
        self._world.point(self._process)
        assert name == self._server.state_name
        self._change(lambda: self._server.forget(self.name), None)

    def locate(self, name: str) -> str:
        return f"document {name} in the simulation"

    def close(self) -> None:
        """Nothing to let go of."""

    # --- the network -----------------------------------------------------------------------------------------------

    def _look(self, look: Callable[[], T], timeout: Timeout | None) -> T:
        """A request that changes nothing: what it sees is the truth of some moment between sending and answer."""
        world, network = self._world, self._server.network
        world.point(self._process)
        fate = self._fate()
        limit = _limit(timeout)
        if fate is not None and fate != "dribbles":
            world.wait(self._gave_up(limit))
            raise StoreUnavailable(f"simulated: {fate}")
        go, back = self._latency(), self._latency()
        if fate == "dribbles":
            back += world.rng.random() * network.lateness
        world.wait(go)
        seen = look()
        world.wait(back)
        return seen

    def _change(self, apply: Callable[[], T | StoreError], timeout: Timeout | None) -> T:
        """A request that changes something: it lands by itself, whatever becomes of us meanwhile."""
        world, network = self._world, self._server.network
        self.writes += world.me().scope in (None, self._process.scope)
        fate = self._fate()
        limit = _limit(timeout)
        go, back, landed = self._latency(), self._latency(), list[T | StoreError]()

        def lands() -> None:
            landed.append(apply())

        if fate is not None:
            world.say(self.name, "  network: %s", fate)
        if fate in ("request lost", "503"):
            world.wait(back if fate == "503" else self._gave_up(limit))
            raise StoreUnavailable(f"simulated: {fate}")
        if fate == "lands late":
            world.at(world.now + world.rng.random() * network.lateness, lands)
            world.wait(self._gave_up(limit))
            raise StoreUnavailable("simulated: timed out")
        world.at(world.now + go, lands)
        if fate is not None and fate.startswith("sent twice"):
            gap = self._latency()
            world.at(world.now + go + gap, lands)
            go += gap if fate == "sent twice, second answer" else 0.0
        if fate == "answer lost":
            world.wait(self._gave_up(limit))
            raise StoreUnavailable("simulated: connection reset")
        if fate == "dribbles":
            back += world.rng.random() * network.lateness
        elif go + back > limit:
            world.wait(limit)
            raise StoreUnavailable("simulated: too slow")
        world.wait(go)
        world.wait(back)
        if fate == "500 after it was applied":
            raise StoreUnavailable("simulated: 500")
        answer = landed[-1 if fate == "sent twice, second answer" else 0]
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def _fate(self) -> str | None:
        world, network = self._world, self._server.network
        if world.now < network.outage:
            return world.rng.choice(("request lost", "answer lost", "lands late", "503"))
        chance = world.rng.random()
        if chance < network.rate:
            return world.rng.choice(FATES)
        if chance < network.rate + network.dribbles:
            return "dribbles"
        if chance > 1.0 - network.denied:
            raise StoreDenied("simulated: 403")
        return None

    def _latency(self) -> float:
        far = self._server.network.far if self.role == "operator" else 0.0
        return far + 0.0005 + self._world.rng.random() * self._server.network.latency

    def _gave_up(self, limit: float) -> float:
        """A reset comes at once, a black hole lasts as long as our patience."""
        return limit if self._world.rng.random() < 0.5 else self._latency()


def _limit(timeout: Timeout | None) -> float:
    return 10.0 if timeout is None else timeout.connect + timeout.read
