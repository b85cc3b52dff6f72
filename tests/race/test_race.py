"""The stale owner is refused, every time."""

from __future__ import annotations

from pathlib import Path

from tests.race import show
from tests.support.azurite import Azurite


def test_an_owner_held_past_its_lease_wakes_up_and_is_refused(azurite: Azurite, tmp_path: Path) -> None:
    race = show.run(azurite, tmp_path)

    first, second = race.names("first"), race.names("second")
    assert first[:3] == ["lease_acquired", "batch_started", "ledger_written"]
    assert second[second.index("lease_taken_over") :][:3] == ["lease_taken_over", "batch_started", "ledger_written"]
    assert first.index("stale_commit_refused") > first.index("woke_up")
    after_waking = first[first.index("woke_up") :]
    assert "batch_committed" not in after_waking
    assert "ledger_refused" in after_waking
    outcomes = {event["worker"]: event["outcome"] for event in race.events if event["event"] == "finished"}
    assert outcomes == {"first": "lease_lost", "second": "delivered"}
    assert [row for row, _, _ in race.ledger] == list(range(1, show.ROWS + 1))
    assert [(token, worker) for _, token, worker in race.ledger] == [(1, "first")] * 5 + [(2, "second")] * 5
