"""Which rows of a batch were applied already, and what the ledger keeps: pure rules.

A row is known by the hash of its key (`poller.model.row_ids`). An entry is what one fenced transaction applied. It is
needed for as long as one of its rows may come again:

- until a commit past its last row has been written (`settled`). The ends of batches are never compared for equality: a
batch
  may be cut otherwise when it comes again. Positions of rows only ever fall (rows that move leave a gap, which closes),
  so an entry is kept for too long rather than too short;
- or while one of its rows is listed as aside or waiting for a person.

Each lane of a tenure owns the entries whose lane is its own modulo the number of lanes, and only changes those: lanes
never touch the same row of the ledger, so none waits for another's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from poller.handler.batch import Standing
from poller.model.row_ids import KEY_BYTES, hash_of_key, id_of_hash


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A row of the ledger; `row_keys` are keys packed one after another."""

    id: int
    lane: int
    generation: int
    token: int
    through: int
    row_keys: bytes


@dataclass(frozen=True, slots=True)
class FencedPlan:
    """What one fenced transaction does.

    Attributes:
        fresh: positions of the rows to apply.
        carried: keys of entries that it replaces which are still needed.
        through: the position up to which its own entry is needed.
        replaced: ids of those entries; the first becomes its own.
    """

    fresh: tuple[int, ...]
    carried: bytes = b""
    through: int = 0
    replaced: tuple[int, ...] = ()


def hashed(keys: Iterable[str]) -> list[bytes]:
    """Keys of rows as the ledger holds them."""
    return [hash_of_key(key) for key in keys]


def plan(
    entries: Sequence[LedgerRow], keys: Sequence[bytes], *, standing: Standing, token: int, named: Collection[int] = ()
) -> FencedPlan:
    """What to apply of a batch, and which entries give way to its own.

    Args:
        entries: the ledger of this part. keys: of the batch's rows, in order. token: the batch's.
        named: positions of rows that failed before they could be applied.
    """
    applied = {key for one in entries if one.generation == standing.generation for key in _unpacked(one.row_keys)}
    fresh = tuple(position for position, key in enumerate(keys) if key not in applied and position not in named)
    if not fresh:
        return FencedPlan(fresh)
    carried, through, replaced = [], standing.through, []
    for one in entries:
        if one.lane % standing.lanes != standing.lane or one.generation > standing.generation:
            continue
        if _is_over(one, standing):
            held = (
                b""
                if not standing.held
                else b"".join(key for key in _unpacked(one.row_keys) if id_of_hash(key) in standing.held)
            )
            if held and one.generation != standing.generation:
                continue  # applied before a reset: under this generation the row is to be applied again
            carried.append(held)
        elif one.token != token and one.generation == standing.generation and standing.settled:
            carried.append(one.row_keys)  # what earlier tenures left: one entry is enough for all of it
            through = max(through, one.through)
        else:
            continue
        replaced.append(one.id)
    return FencedPlan(fresh, b"".join(carried), through, tuple(replaced))


def _is_over(entry: LedgerRow, standing: Standing) -> bool:
    """True if no row of it comes again, but for those that are held."""
    return entry.generation < standing.generation or entry.through <= standing.settled


def _unpacked(row_keys: bytes) -> Iterable[bytes]:
    return (row_keys[begin : begin + KEY_BYTES] for begin in range(0, len(row_keys), KEY_BYTES))
