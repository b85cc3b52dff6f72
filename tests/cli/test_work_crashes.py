"""A command that does work, killed by SIGKILL at every step, and the same command once more: every row is delivered,
twice only those of the batch in hand, in order within a key, and the document can always be read.

The steps are those of test_change_crashes.py, and the rows that the handler takes. What would be waited for after a
kill, the end of the lease, is brought about by the store's clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest

from tests.cli.crashes import every_moment, placed
from tests.cli.forge import Forge
from tests.cli.project import Project
from tests.cli.works import BATCH, HALTS, LEDGER, ROWS, WORKS, Site, Work


@pytest.fixture
def site(request: pytest.FixtureRequest, project: Project, forge: Forge) -> Iterator[Site]:
    project.configure("orders", handlers=LEDGER, poller=f"batch_size = {BATCH}\n{HALTS}")
    with placed(request, project, forge, request.param) as made:
        if made.proxy is not None:
            made.store.append("audit/shop/nobody.jsonl", "the container is there")
        yield Site(project, made, made.proxy)


Moments = Callable[[list[str]], list[tuple[int, str]]]


def telling_moments(steps: list[str]) -> list[tuple[int, str]]:
    """After the first writes of the document, and the last."""
    writes = [number for number, step in enumerate(steps, 1) if step.startswith("write state/")]
    return [(number, "after") for number in (*writes[:2], writes[-1])]


def each_write(steps: list[str]) -> list[tuple[int, str]]:
    """After each write of a document."""
    return [(number, "after") for number, step in enumerate(steps, 1) if step.startswith("write state/")]


def killed_at(site: Site, work: Work, moments: Moments, rows: Sequence[int]) -> None:
    work.prepare(site)
    site.keep()
    steps = site.place.steps(*work.command)
    assert sorted(one.id for one in site.taken()) == sorted(work.ids), "undisturbed it delivers each row once"
    kills: list[tuple[str, Callable[[], None]]] = [
        (f"killed {when} step {step}, {steps[step - 1]}", partial(site.place.kill, step, when, *work.command))
        for step, when in moments(steps)
    ]
    kills += [(f"killed after {count} rows", partial(site.kill_after_rows, count, *work.command)) for count in rows]
    twice = 0
    for at, kill in kills:
        site.restore()
        untouched = {name: site.place.body(name) for name in work.untouched}
        kill()
        holds(site, work, untouched, at)
        twice += len(site.taken()) > len(work.ids)
    assert twice or not rows, "some kill was in mid-batch"
    work.done(site)
    taken = site.taken()
    assert site.place.forge.run(*work.command) == 0
    assert site.taken() == taken, "what is done is not done again"


def holds(site: Site, work: Work, untouched: dict[str, bytes | None], at: str) -> None:
    """The laws, after a kill."""
    first = site.taken()
    site.documents()
    work.between(site)
    site.later()
    forge = site.place.forge
    assert forge.run(*work.command) == 0, (at, forge.err)
    taken = site.taken()
    second = taken[len(first) :]

    assert {one.id for one in taken} == work.ids, at
    changed = dict(site.project.execute("SELECT id, updated_at FROM orders"))
    assert {(one.id, one.version) for one in taken} >= {(id_, changed[id_]) for id_ in work.ids}, at
    last = {one.poller: one.batch for one in first}
    in_hand = {(one.poller, one.id, one.version) for one in first if one.batch == last[one.poller]}
    twice = {(one.poller, one.id, one.version) for one in first} & {(one.poller, one.id, one.version) for one in second}
    assert twice <= in_hand, at
    for run in (first, second):
        assert len(set(run)) == len(run), at
        for poller in {one.poller for one in run}:
            versions = [(one.version, one.id) for one in run if one.poller == poller]
            assert versions == sorted(versions), at
    for id_ in work.ids:
        versions_of_one = [one.version for one in taken if one.id == id_]
        assert versions_of_one == sorted(versions_of_one), at
    for poller in {one.poller for one in first} & {one.poller for one in second}:
        assert max(o.token for o in first if o.poller == poller) < min(o.token for o in second if o.poller == poller), (
            at
        )
    documents = site.documents()
    for name, body in documents.items():
        # Where nothing was left to do, nobody took the lease that the dead one had; it has ended.
        assert not second or json.loads(body)["lease"]["owner_id"] is None, (at, name)
    assert {name: documents[name] for name in untouched} == untouched, at


@pytest.mark.parametrize(
    ("site", "name", "rows"),
    [("embedded", "run", (BATCH + 1,)), ("embedded", "replay", (2,)), ("azurite", "backfill", ())],
    indirect=["site"],
)
def test_killed_after_a_write_of_the_document(site: Site, name: str, rows: Sequence[int]) -> None:
    killed_at(site, WORKS[name], telling_moments, rows)


SOME_ROWS = (1, BATCH, ROWS)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("site", "name", "rows"),
    [
        ("embedded", "run", SOME_ROWS),
        ("embedded", "run-resumed", (1,)),
        ("embedded", "replay", (1, 2, 3)),
        ("embedded", "backfill", SOME_ROWS),
        ("embedded", "backfill-parallel", (1, ROWS)),
        ("embedded", "backfill-resumed", (1,)),
        ("embedded", "backfill-retry", (1,)),
        ("embedded", "recheck", SOME_ROWS),
        ("azurite", "run", (BATCH,)),
        ("azurite", "backfill", (BATCH,)),
        ("azurite", "recheck", (BATCH,)),
    ],
    indirect=["site"],
)
def test_killed_between_any_two_steps_and_after_rows(site: Site, name: str, rows: Sequence[int]) -> None:
    killed_at(site, WORKS[name], every_moment, rows)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("site", ["azurite"], indirect=True)
@pytest.mark.parametrize("name", ["run-resumed", "backfill-parallel", "backfill-resumed", "backfill-retry"])
def test_killed_after_each_write_of_a_document(site: Site, name: str) -> None:
    killed_at(site, WORKS[name], each_write, (1,))
