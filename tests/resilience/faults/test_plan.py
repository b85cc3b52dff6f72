"""Plans: a failing run can be played again, and what the proxy's log says is what is in the blob."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import AzureError
from azure.storage.blob import BlobClient

from tests.resilience.faults import fault
from tests.resilience.faults.fault import Fault
from tests.resilience.faults.plan import (
    MIXED,
    STATE_READS,
    STATE_WRITES,
    Always,
    FirstOf,
    Match,
    NoFaults,
    Script,
    Seeded,
)
from tests.resilience.faults.proxy import FaultProxy
from tests.resilience.faults.request import Request


def request(method: str = "PUT", blob: str = "state/a/b.json", container: str = "db-state") -> Request:
    return Request(1, method, f"/devstoreaccount1/{container}/{blob}", "", (), b"")


def play(plan: Seeded, requests: list[Request]) -> dict[str, list[Fault | None]]:
    """The faults in the order of each method's and blob's own requests."""
    faults: dict[str, list[Fault | None]] = {}
    for one in requests:
        faults.setdefault(f"{one.method} {one.blob}", []).append(plan(one))
    return faults


def test_a_seed_gives_the_same_faults_under_any_interleaving() -> None:
    requests = [request(method, blob) for method in ("GET", "PUT") for blob in ("state/a/1.json", "state/a/2.json")]
    ordered = [one for one in requests for _ in range(300)]
    shuffled = [request(one.method, one.blob, "other") for one in ordered]
    random.Random(1).shuffle(shuffled)
    assert play(Seeded(7), ordered) == play(Seeded(7), shuffled)
    assert play(Seeded(7), ordered) != play(Seeded(8), ordered)


def test_a_seeded_plan_can_be_written_down_and_played_again() -> None:
    plan = Seeded(42, {"late": 0.3, "reset_after": 0.2}, STATE_WRITES, pace=0.5)
    requests = [request() for _ in range(200)]
    faults = play(plan, requests)
    assert play(Seeded.from_json(plan.to_json()), requests) == faults
    names = {"Seeded": Seeded, "Match": Match}
    assert play(eval(repr(plan), names), requests) == faults


def test_every_kind_occurs_at_its_rate_where_it_makes_sense() -> None:
    plan = Seeded(3)
    faults = play(plan, [request(method) for method in ("GET", "PUT") for _ in range(20_000)])
    names = {key.split()[0]: Counter(one.name for one in given if one) for key, given in faults.items()}
    assert set(plan.given) == set(MIXED)
    assert "truncated" not in names["PUT"]
    assert not {"late", "duplicate"} & set(names["GET"])
    assert names["PUT"]["reset_after"] == pytest.approx(20_000 * MIXED["reset_after"], rel=0.2)


def test_rates_that_are_unknown_or_too_many_are_refused() -> None:
    with pytest.raises(ValueError, match="reset_sideways"):
        Seeded(1, {"reset_sideways": 0.1})
    with pytest.raises(ValueError, match="at most 1"):
        Seeded(1, {"late": 0.6, "busy": 0.6})


@pytest.mark.parametrize(
    "one",
    [
        fault.late("tag", seconds=1.5, answer="error", status=503),
        fault.error_before(429, retry_after=1),
        fault.without("Date", "Last-Modified"),
        fault.date_off(-60.0),
    ],
    ids=lambda one: one.name,
)
def test_a_fault_can_be_written_down_and_read_again(one: Fault) -> None:
    assert Fault.from_dict(one.to_dict()) == one
    assert eval(repr(one), {"Fault": Fault}) == one


@pytest.mark.parametrize(
    ("upstream", "answer"), [("never", "real"), ("never", "cut"), ("late", "real"), ("late", "dribble")]
)
def test_a_success_that_the_server_never_gave_cannot_be_planned(upstream: fault.Upstream, answer: fault.Answer) -> None:
    with pytest.raises(ValueError, match="no real answer"):
        Fault(name="lie", upstream=upstream, answer=answer, seconds=1)


def test_plans_combine_and_the_first_fault_wins() -> None:
    script = Script([fault.reset_after()], STATE_READS)
    plan = FirstOf(NoFaults(), script, Always(fault.black_hole()))
    assert plan(request("PUT")) == fault.black_hole()
    assert plan(request("GET")) == fault.reset_after()
    assert plan(request("GET")) == fault.black_hole()
    assert script.left == []


def test_under_mixed_faults_the_log_knows_what_landed(proxy: FaultProxy, direct: BlobClient) -> None:
    """Four writers fight over one blob; each successful ETag of the log was somebody's, and the chain has no gap."""
    created = str(direct.upload_blob(b"0")["etag"])
    proxy.plan = plan = Seeded(11, {**MIXED, "silence_after": 0, "black_hole": 0}, STATE_WRITES, pace=0.02)

    def write(_: int) -> None:
        client = BlobClient.from_connection_string(
            proxy.connection_string, direct.container_name, direct.blob_name, retry_total=0, read_timeout=5
        )
        for _ in range(25):
            etag = client.get_blob_properties().etag
            try:
                client.upload_blob(
                    uuid.uuid4().bytes, overwrite=True, etag=etag, match_condition=MatchConditions.IfNotModified
                )
            except AzureError:
                continue

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    proxy.settle()
    applied = {one.request.if_match: one for one in proxy.requests.select("PUT") if one.applied}
    etag, body = created, b"0"
    while (record := applied.pop(etag, None)) is not None:
        [etag], body = record.etags, record.request.body
    assert applied == {}, plan.to_json()
    assert direct.get_blob_properties().etag == etag
    assert direct.download_blob().readall() == body
    assert len(plan.given) >= 10
