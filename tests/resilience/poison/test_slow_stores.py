"""Records that take long to write, before the checkpoint passes their rows: no fault of the handler."""

from __future__ import annotations

from collections.abc import Callable

from poller.ports import Timeout, Written
from poller.stores import MemoryStore
from tests.integration.runner.clockwork import Clockwork
from tests.resilience.poison.bench import Bench


class Slow(MemoryStore):
    """Each write of a record takes two seconds."""

    def __init__(self, clock: Clockwork) -> None:
        super().__init__(clock)
        self._slow = clock

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        if name.startswith("quarantine/"):
            self._slow.sleep(2.0)
        return super().write(name, body, if_tag=if_tag, timeout=timeout)


def test_many_records_are_no_hung_handler(benches: Callable[..., Bench], sqlite_url: str) -> None:
    """Twelve rows are named: their records take longer than a handler may, and longer than a lease."""
    runtime = Clockwork()
    table = benches(
        sqlite_url,
        store=Slow(runtime),
        runtime=runtime,
        on_poison="quarantine",
        batch_size=16,
        max_aside=12,
        handler_timeout="5s",
        lease_ttl="15s",
    )
    table.downstream.bad, table.downstream.named = set(range(1, 13)), True
    table.insert(range(1, 17))
    table.tick()
    assert table.waits == (12, 0)
    assert table.downstream.done == [13, 14, 15, 16]
    assert not table.emitted("handler_timed_out")
    assert not table.emitted("lease_lost")


def test_records_of_many_followers_are_no_hung_query(benches: Callable[..., Bench], sqlite_url: str) -> None:
    """Rows of one key follow the first: their records take longer than a page may."""
    runtime = Clockwork()
    table = benches(
        sqlite_url,
        store=Slow(runtime),
        runtime=runtime,
        on_poison="quarantine",
        ordering_key=["customer_id"],
        batch_size=99,
        max_attempts=9,
        handler_timeout="5s",
        lease_ttl="15s",
    )
    table.downstream.bad, table.downstream.named = {1}, True
    table.insert([1], customer=1)
    table.tick()
    table.insert(range(101, 200))  # the page of the followers is another one, read under the lease
    table.insert(range(2, 92), customer=1)
    table.insert([100])
    table.run(3)
    assert 100 in table.downstream.done
    assert table.waits == (91, 0)
    assert not table.emitted("query_timed_out")
    assert not table.emitted("lease_lost")
