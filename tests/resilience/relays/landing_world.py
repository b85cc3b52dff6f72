"""A poller's table, its checkpoint and a container, in which workers are killed and stopped at any request of theirs.

A worker that is stopped goes on after others have worked in its place, with what it knew. A request may be answered, or
its answer lost, or arrive only after others. Rows move to the end of the table when they are updated; batches are cut
differently each time; lanes are done in any order; rows are set aside and tried again; at times the poller is reset.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from poller import Batch, RetryLater, Standing
from poller.errors import Fenced
from poller.model.row_ids import hash_of_key, id_of_hash
from poller.relays.landing import Files, LandedFiles, LandingRows, Look

Row = dict[str, int]


class Killed(BaseException):
    """The process ends here."""


class Container(Files):
    """Blobs in memory, with the conditions of the service. Each request may go wrong as `World.request` says."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.blobs: dict[str, tuple[bytes, str, bool]] = {}
        self.tags = 0

    def place(self, name: str) -> str:
        return name

    def read(self, name: str) -> tuple[bytes, str] | None:
        self.world.request()
        found = self.blobs.get(name)
        return found and found[:2]

    def write(self, name: str, content: bytes, tag: str | None) -> str | None:
        return self.world.written(lambda: self._put(name, content, tag, False))

    def create(self, name: str, content: bytes, *, sealed: bool, facts: Mapping[str, str]) -> bool:
        return self.world.written(lambda: self._put(name, content, None, sealed)) is not None

    def look(self, name: str) -> Look:
        self.world.request()
        found = self.blobs.get(name)
        return "missing" if found is None else "sealed" if found[2] else "landed"

    def _put(self, name: str, content: bytes, tag: str | None, sealed: bool) -> str | None:
        there = self.blobs.get(name)
        if (there[1] if there else None) != tag:
            return None
        self.tags += 1
        self.blobs[name] = (content, str(self.tags), sealed)
        return str(self.tags)

    def rows(self) -> Counter[tuple[int, str]]:
        """How often each version of a row is in a file, by generation."""
        found: Counter[tuple[int, str]] = Counter()
        for name, (content, _, _) in self.blobs.items():
            if name.startswith("rows/"):
                generation = int(name.split("/")[1].split("-")[0])
                found.update((generation, line) for line in content.decode().splitlines())
        return found


class Lines:
    """A line for each row: its key."""

    suffix = ".jsonl"

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def columns(self, known: str) -> str:
        return known

    def encode(self, positions: Sequence[int], columns: str) -> bytes:
        return "".join(f"{self.batch.key(self.batch.rows[at])}\n" for at in positions).encode()


class World:
    """One schedule. `faults`: the chance that a request goes wrong."""

    def __init__(self, seed: int, *, faults: float) -> None:
        self.rng = random.Random(seed)
        self.faults = faults
        self.container = Container(self)
        self.late: list[Callable[[], object]] = []
        self.depth = 0
        self.cursor = 0
        self.table: dict[int, int] = {}
        self.generation = self.token = self.position = self.checkpoint = 0
        self.aside: dict[str, Row] = {}
        self.done: set[str] = set()
        self.alone: str | None = None
        self.landing: LandedFiles | None = None
        self.counts: Counter[str] = Counter()
        for number in range(self.rng.randint(3, 14)):
            self.update(number)

    # --- what goes wrong ---------------------------------------------------------------------------------------------

    def request(self) -> None:
        """Before a request: others may work, a late one may arrive, or the process may be killed."""
        if self.late and self.rng.random() < 0.3:
            self.late.pop(self.rng.randrange(len(self.late)))()
            self.counts["late"] += 1
        if self.rng.random() >= self.faults:
            return
        if self.rng.random() < 0.5:
            self.counts["killed"] += 1
            raise Killed
        if self.depth < 3:
            self.counts["stopped"] += 1
            mine, self.landing = self.landing, None
            self.depth += 1
            for _ in range(self.rng.randint(1, 2)):
                self.live()
            self.depth -= 1
            self.landing = mine

    def written(self, put: Callable[[], str | None]) -> str | None:
        """A request that writes: its answer may be lost, or the request arrive later."""
        self.request()
        if self.rng.random() >= self.faults:
            return put()
        if self.rng.random() < 0.5:
            put()
            self.counts["lost"] += 1
        else:
            self.late.append(put)
        raise RetryLater("no answer")

    # --- a poller ----------------------------------------------------------------------------------------------------

    def update(self, number: int) -> None:
        self.cursor += 1
        self.table[number] = self.cursor

    def live(self) -> None:
        """A tenure: some batches, until something goes wrong."""
        self.token += 1
        token = self.token
        if self.alone is not None:
            self._set_aside(self.alone)
        landing = self.landing or LandedFiles(self.container, "_poller/shop/orders.json")
        self.landing = landing
        try:
            for _ in range(self.rng.randint(1, 4)):
                if self.aside and self.rng.random() < 0.5:
                    self._retry(landing, token)
                elif not self._deliver(landing, token):
                    return
        except Killed:
            self.landing = None
        except (RetryLater, Fenced) as error:
            self.counts[type(error).__name__] += 1
        finally:
            if self.rng.random() < 0.3:
                self.update(self.rng.choice(list(self.table)))
            if self.rng.random() < 0.02:
                self._reset()

    def _reset(self) -> None:
        self.generation += 1
        self.token += 1
        self.position = self.checkpoint = 0
        self.aside, self.alone = {}, None
        self.done.clear()

    def _deliver(self, landing: LandedFiles, token: int) -> bool:
        rows: list[Row] = [
            {"id": number, "at": at} for number, at in sorted(self.table.items(), key=lambda one: one[1])
            if at > self.checkpoint
        ]  # fmt: skip
        page = rows[: self.rng.randint(1, 6)]
        if not page:
            return False
        base, generation = self.position, self.generation
        lanes = self.rng.choice([1, 1, 2])
        cuts = [[one for one in page if one["id"] % lanes == lane] for lane in range(lanes)]
        parts = [part for rows_of_lane in cuts for part in self._cut(rows_of_lane)]
        if lanes > 1:
            self.rng.shuffle(parts)
        done: list[Row] = []
        fault: BaseException | None = None
        for part in parts:
            fresh = [one for one in part if key_of(one) not in self.done]
            if not fresh:
                done += part
                continue
            through = base + page.index(part[-1]) + 1
            try:
                self._land(landing, token, fresh, Standing(
                    app_name="shop", generation=generation, settled=base, through=through, held=self._held(),
                    lanes=lanes,
                ))  # fmt: skip
            except (RetryLater, Fenced, Killed) as error:
                fault = error
                if isinstance(error, Killed) and len(part) == 1 and self._owns(token, generation) and not done:
                    self.alone = key_of(part[0])
                break
            done += part
        if fault is not None and isinstance(fault, Killed):
            raise fault
        self._commit(token, generation, page, done)
        if fault is not None:
            raise fault
        return True

    def _cut(self, rows: list[Row]) -> list[list[Row]]:
        """Batches that are landed before one commit."""
        parts = []
        while rows:
            size = self.rng.randint(1, len(rows))
            parts.append(rows[:size])
            rows = rows[size:]
        return parts

    def _owns(self, token: int, generation: int) -> bool:
        return self.token == token and self.generation == generation

    def _commit(self, token: int, generation: int, page: list[Row], done: list[Row]) -> None:
        """Move the checkpoint to the low watermark, if the lease is still ours; the writer may be killed before."""
        if not self._owns(token, generation):
            raise Fenced("lost", fencing_token=token, standing_token=self.token)
        if self.rng.random() < self.faults:
            raise Killed
        passed = 0
        while passed < len(page) and page[passed] in done:
            self.check_landed(page[passed], generation)
            passed += 1
        self.done.difference_update(key_of(one) for one in page[:passed])
        if passed:
            self.checkpoint, self.alone = page[passed - 1]["at"], None
            self.position += passed
        if self.rng.random() < 0.5:
            self.done.update(key_of(one) for one in page[passed:] if one in done)

    def _set_aside(self, key: str) -> None:
        """A row alone whose process was killed: the next owner passes it, and it is tried again later."""
        self.alone = None
        ahead = sorted(at for at in self.table.values() if at > self.checkpoint)
        versions: list[Row] = [{"id": number, "at": at} for number, at in self.table.items()]
        row = next((one for one in versions if key_of(one) == key), None)
        if row is not None and ahead and ahead[0] == row["at"]:
            self.aside[key] = row
            self.checkpoint = row["at"]
            self.position += 1
            self.counts["aside"] += 1

    def _held(self) -> frozenset[str]:
        return frozenset(id_of_hash(hash_of_key(key)) for key in self.aside)

    def _retry(self, landing: LandedFiles, token: int) -> None:
        key, row = next(iter(self.aside.items()))
        generation = self.generation
        self._land(landing, token, [row], Standing(
            app_name="shop", generation=generation, settled=self.position, through=self.position, held=self._held(),
        ))  # fmt: skip
        if self._owns(token, generation):
            self.check_landed(row, generation)
            self.aside.pop(key, None)

    def _land(self, landing: LandedFiles, token: int, rows: list[Row], standing: Standing) -> None:
        batch = Batch.of_rows(rows, poller_name="orders", fencing_token=token, standing=standing)
        keys = tuple(hash_of_key(key) for key in batch.keys())  # noqa: SIM118 - not a mapping's
        landing.land(batch, [LandingRows("rows", tuple(range(len(rows))), keys)], Lines(batch))

    # --- laws --------------------------------------------------------------------------------------------------------

    def check_landed(self, row: Row, generation: int) -> None:
        assert self.container.rows()[generation, key_of(row)] == 1, f"passed, and not in a file: {row}"

    def check_once(self) -> None:
        twice = [key for key, count in self.container.rows().items() if count > 1]
        assert not twice, f"in more than one file: {twice}"

    def play(self, lives: int) -> None:
        """Live so often, then once more without faults."""
        for _ in range(lives):
            self.live()
            self.check_once()
        self.faults = 0.0
        while self.late:
            self.late.pop(0)()
            self.check_once()
        while self.checkpoint < max(self.table.values()) or self.aside or self.alone:
            self.live()
            self.check_once()


def key_of(row: Mapping[str, Any]) -> str:
    return f"orders:{sorted(row.items())}"
