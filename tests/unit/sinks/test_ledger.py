"""The ledger's rules, without a database."""

from __future__ import annotations

import random

import pytest

from poller import Standing
from poller.model.row_ids import hash_of_key, id_of_key
from poller.sinks.ledger import LedgerRow, hashed, plan


def entry(id_: int, keys: str, **fields: int) -> LedgerRow:
    made = {"lane": 0, "generation": 0, "token": 1, "through": len(keys), **fields}
    return LedgerRow(id=id_, row_keys=b"".join(hashed(keys)), **made)


def standing(**fields: object) -> Standing:
    return Standing(**{"app_name": "shop", "through": 10, "settled": 1, **fields})  # type: ignore[arg-type]


def test_a_row_in_any_lanes_entry_of_this_generation_is_not_fresh() -> None:
    known = [entry(1, "ab", lane=5), entry(2, "c", generation=1), entry(3, "d", generation=2)]
    assert plan(known, hashed("abcde"), standing=standing(generation=1), token=9).fresh == (0, 1, 3, 4)


def test_a_row_that_failed_before_is_not_fresh() -> None:
    assert plan([], hashed("abc"), standing=standing(), token=1, named={1}).fresh == (0, 2)


def test_where_nothing_is_fresh_nothing_changes() -> None:
    found = plan([entry(1, "ab", through=1)], hashed("ab"), standing=standing(settled=9), token=2)
    assert (found.fresh, found.replaced) == ((), ())


def test_an_entry_is_over_when_its_last_row_has_been_passed() -> None:
    known = [entry(1, "a", through=4), entry(2, "b", through=5), entry(3, "c", through=6)]
    assert plan(known, hashed("z"), standing=standing(settled=5), token=1).replaced == (1, 2)


@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_each_entry_has_one_owner_whatever_the_number_of_lanes(lanes: int) -> None:
    known = [entry(number, "a", lane=number, through=1) for number in range(7)]
    replaced = [
        plan(known, hashed("z"), standing=standing(settled=9, lane=lane, lanes=lanes), token=2).replaced
        for lane in range(lanes)
    ]
    assert sorted(one for lane in replaced for one in lane) == list(range(7))


def test_what_earlier_tenures_left_is_carried_up_to_their_end() -> None:
    known = [entry(1, "ab", through=30), entry(2, "cd", through=20, token=2)]
    found = plan(known, hashed("bz"), standing=standing(), token=2)
    assert (found.carried, found.through, found.replaced) == (b"".join(hashed("ab")), 30, (1,))


def test_of_what_is_over_the_rows_that_wait_are_carried() -> None:
    found = plan(
        [entry(1, "abc")], hashed("z"), standing=standing(settled=9, held=frozenset([id_of_key("b")])), token=1
    )
    assert (found.carried, found.replaced) == (hash_of_key("b"), (1,))


def test_a_row_that_waits_from_before_a_reset_stays_where_it_is() -> None:
    """Carried into this generation it would count as applied, and a reset is to apply it again."""
    known = [entry(1, "ab"), entry(2, "c")]
    found = plan(known, hashed("bz"), standing=standing(generation=1, held=frozenset([id_of_key("b")])), token=2)
    assert (found.fresh, found.carried, found.replaced) == ((0, 1), b"", (2,))


def test_a_later_generation_is_left_alone() -> None:
    assert plan([entry(1, "a", generation=2)], hashed("z"), standing=standing(generation=1), token=9).replaced == ()


def test_a_key_may_hold_what_utf8_cannot_say() -> None:
    assert len(hash_of_key("\ud800")) == 16


@pytest.mark.parametrize("seed", range(30))
def test_no_row_that_may_come_again_is_forgotten(seed: int) -> None:
    """Tenures that crash anywhere, batches that are cut otherwise, rows that leave their place: whatever stands after
    the checkpoint and was applied is known, and nothing is applied twice."""
    chance = random.Random(seed)
    table, applied = [f"{n}" for n in range(60)], ["0"]
    known: dict[int, LedgerRow] = {}
    passed, token, fresh_id, most = 1, 0, 0, 0
    while passed < len(table):
        token += 1
        done, uncommitted = passed, 0
        while done < len(table) and chance.random() < 0.8:
            for _ in range(chance.randrange(3)):  # a row is changed: it leaves a gap, and comes at the end
                place = chance.randrange(passed, len(table))
                if place >= done and len(table) < 120:
                    table.append(table.pop(place) + "'")
            batch = table[done : done + chance.randrange(1, 6)]
            where = standing(settled=passed, through=done + len(batch))
            found = plan([*known.values()], hashed(batch), standing=where, token=token)
            for one in found.replaced:
                del known[one]
            if found.fresh:
                applied += [batch[position] for position in found.fresh]
                fresh_id += 1
                keys = b"".join(hashed(batch[position] for position in found.fresh)) + found.carried
                known[fresh_id] = LedgerRow(fresh_id, 0, 0, token, found.through, keys)
            done += len(batch)
            uncommitted += 1
            most = max(most, uncommitted)
            assert len(known) <= most + 1, "more than batches were ever under way"
            if chance.random() < 0.5:
                passed, uncommitted = done, 0
    assert sorted(applied) == sorted(set(applied))
