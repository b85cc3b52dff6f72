"""What a log of calls (`lives.py`) says of the laws of several lanes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Version = tuple[int, int]
"""When a row was changed, in microseconds, and its key: where it stands."""


@dataclass
class Found:
    """What came of a log.

    Attributes:
        handled: the versions that a call has done. calls, lives: how many there were.
        repeated: how many versions were handed over again by a later life. again: versions that were done, and handed
            over again by the same life. inversions: what was handled out of order, with the line.
    """

    handled: set[Version] = field(default_factory=set)
    calls: int = 0
    lives: int = 0
    repeated: int = 0
    again: list[str] = field(default_factory=list)
    inversions: list[str] = field(default_factory=list)


class _Order:
    """What was handled of each key: of ordering keys, and of primary keys."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._highest: dict[str, Version] = {}
        self._done: dict[str, Version] = {}
        self._at_work: dict[str, str] = {}

    def new_life(self) -> None:
        self._done.clear()
        self._at_work.clear()

    def begins(self, key: str, version: Version, call: str, *, known: bool) -> str | None:
        """What is wrong with it; `known`: it was handed over before, and that life ended or the call failed."""
        other, done = self._at_work.get(key, call), self._done.get(key)
        highest = max(version, self._highest.get(key, version))
        self._highest[key], self._at_work[key] = highest, call
        if other != call:
            return f"{self._what} {key}: {version} begins in {call} while {other} is at work"
        if done is not None and version <= done:
            return f"{self._what} {key}: {version} begins after {done} was done"
        if not known and version < highest:
            return f"{self._what} {key}: {version} begins for the first time after {highest} had begun"
        return None

    def ends(self, key: str, version: Version | None) -> None:
        self._at_work.pop(key, None)
        if version is not None:
            self._done[key] = max(version, self._done.get(key, version))


def judge(lines: Iterable[str]) -> Found:
    """Look at each call, in the order in which they happened."""
    found, begun = Found(), dict[Version, int]()
    done: dict[Version, int] = {}
    orders = _Order("ordering key"), _Order("row")
    calls: dict[str, list[tuple[Version, tuple[str, str]]]] = {}
    life = token = 0
    lives = set[int]()
    for at, line in enumerate(lines, 1):
        kind, of, *rest = line.split(" ")
        if kind == "b" and int(rest[0]) > token:
            token = int(rest[0])
            if int(of) != life:
                life = int(of)
                lives.add(life)
                calls.clear()
                for order in orders:
                    order.new_life()
        if int(of) != life:
            continue  # what it does is discarded: another owner has begun
        call = rest[1] if kind == "b" else rest[0].strip()
        if kind != "b":
            for version, keys in calls.pop(call):
                if kind == "e":
                    found.handled.add(version)
                    done[version] = life
                for order, key in zip(orders, keys, strict=True):
                    order.ends(key, version if kind == "e" else None)
            continue
        found.calls += 1
        rows = calls[call] = [_row(text) for text in rest[2:]]
        for version, keys in rows:
            before = begun.get(version)
            if before is not None and before != life:
                found.repeated += 1
            elif done.get(version) == life:
                found.again.append(f"line {at}: {version}")
            begun[version] = life
            for order, key in zip(orders, keys, strict=True):
                wrong = order.begins(key, version, call, known=before is not None)
                if wrong:
                    found.inversions.append(f"line {at}: {wrong}")
    found.lives = len(lives)
    return found


def _row(text: str) -> tuple[Version, tuple[str, str]]:
    number, at, customer = text.split(":")
    return (int(at), int(number)), (customer.strip(), number)
