"""Two writers, and what each was shown of its writes, held against what the server did."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from poller.errors import StoreUnavailable
from poller.lease import Conflict, OutcomeUnknown
from poller.model.document import State
from tests.resilience.faults.bench import Bench, Brisk


class Marked(Brisk):
    """Remembers the last id that it gave: the write id of the write in hand."""

    last = ""

    def new_id(self) -> str:
        self.last = super().new_id()
        return self.last


@dataclass
class Account:
    """What one writer heard of its writes, by their ids."""

    done: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    others_before: int | None = None
    """While a write is in hand: how many the other writer had made when it began."""

    @property
    def writes(self) -> int:
        return len(self.done) + len(self.lost) + len(self.unknown)


def _write_on(
    bench: Bench, account: Account, other: Account, enough: threading.Event, errors: list[BaseException]
) -> None:
    """Write until it is enough, never two at once, each upon what stands there.

    The document remembers eight write ids, so at most six writes come between the other's and its answer: beside a
    worker there are operators, not a second worker that writes as fast as it can.
    """
    runtime = Marked()
    file = bench.file(runtime=runtime)
    try:
        while not enough.is_set():
            try:
                copy = file.read()
            except StoreUnavailable:
                continue
            while other.others_before is not None and account.writes - other.others_before >= 6:
                enough.wait(0.005)
                if enough.is_set():
                    return
            runtime.last = ""
            account.others_before = other.writes
            try:
                file.write(copy, lambda state, now: state, deadline=runtime.monotonic() + file.timing.ttl)
            except Conflict:
                account.lost.append(runtime.last)
            except OutcomeUnknown:
                account.unknown.append(runtime.last)
            else:
                account.done.append(runtime.last)
            account.others_before = None
    except BaseException as error:  # noqa: BLE001 - raised by the test
        errors.append(error)


def in_line(versions: dict[str | None, tuple[str, State]]) -> list[State]:
    """The versions in order, each by the tag that it replaced."""
    chain: list[State] = []
    at: str | None = next(key for key in versions if key not in {etag for etag, _ in versions.values()})
    while at in versions:
        at, state = versions[at]
        chain.append(state)
    assert len(chain) == len(versions), "all versions stand in one line"
    return chain


def hold_to_account(
    bench: Bench, writes: int, chain: Callable[[], list[State]], given: Counter[str], summary: str
) -> dict[str, int]:
    """Two writers until they made so many writes under the faults that are in force. `chain`: every version that the
    server had, in order, once nothing is on its way any more. `given`: the faults. `summary`: how to play it again."""
    accounts = [Account(), Account()]
    enough = threading.Event()
    errors: list[BaseException] = []
    threads = [
        threading.Thread(target=_write_on, args=(bench, mine, other, enough, errors))
        for mine, other in (accounts, accounts[::-1])
    ]
    for thread in threads:
        thread.start()
    while sum(account.writes for account in accounts) < writes and any(thread.is_alive() for thread in threads):
        threading.Event().wait(0.05)
    enough.set()
    for thread in threads:
        thread.join(30)
    assert not errors, f"{errors} under {summary}"
    applied = Counter(state.write_ids[-1] for state in chain())
    done = {one for account in accounts for one in account.done}
    lost = {one for account in accounts for one in account.lost}
    assert max(applied.values()) == 1, f"at most one copy of a write lands; {summary}"
    assert not lost & applied.keys(), f"false losses under {summary}"
    assert not done - applied.keys(), f"false successes under {summary}"
    return {
        "writes": sum(account.writes for account in accounts),
        "done": len(done),
        "lost": len(lost),
        "unknown": sum(len(account.unknown) for account in accounts),
        "faults": sum(given.values()),
        "resolved": bench.emitted("write_resolved"),
    }
