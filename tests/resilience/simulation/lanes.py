"""What several lanes may never do, and what they leave behind in the document; judged by the places of rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.resilience.simulation.plan import Plan
from tests.resilience.simulation.source import Table

if TYPE_CHECKING:
    from poller import Standing

Document: TypeAlias = dict[str, Any]


class LaneLaws:
    """The laws of one schedule whose poller has several lanes.

    Attributes:
        begun: by owner, the rows that its handlers were given, but for those of calls that failed.
    """

    def __init__(self, table: Table, plan: Plan, fail: Callable[[str], None]) -> None:
        self.begun: defaultdict[str, set[int]] = defaultdict(set)
        self._table = table
        self._plan = plan
        self._fail = fail

    def covered(self, document: Document | None) -> set[int]:
        """The rows behind the checkpoint of which the document says that lanes have done them: of each lane all up to a
        cursor, as far as that is of this generation and of this ordering key."""
        known = ((document or {}).get("delivery") or {}).get("lanes")
        if not document or not known or known["generation"] != document["checkpoint"]["generation"]:
            return set()
        if tuple(known["ordering_key"]) != (("customer",) if self._plan.keys else ()):
            return set()
        begin = self._table.position(document["checkpoint"]["cursor"])
        ends = [begin if cursor is None else self._table.position(cursor) for cursor in known["done"]]
        lane = self._table.lane
        return {n for n in range(begin + 1, max(ends, default=begin) + 1) if n <= ends[lane(n, len(ends))]}

    def given(self, owner: str, document: Document, after: int, rows: Sequence[int], standing: Standing) -> None:
        """A handler is given rows: the next ones of its lane, or of all where there is one, that are neither done nor
        in hand. `document`: as its tenure knows it; `after`: the row behind which the batch says that it stands."""
        several, begun = standing.lanes > 1, self.begun[owner]
        done = self.covered(document) | begun
        begin = self._table.position(document["checkpoint"]["cursor"])
        if not several and after < begin:
            self._fail(f"{owner} is given rows behind row {after}, and the checkpoint stands at row {begin}")
        if several and standing.lanes != self._plan.lanes:
            self._fail(f"{owner} is given rows of one of {standing.lanes} lanes")
        left = (
            number
            for number in range(begin + 1, rows[-1] + 1)
            if number not in done and (not several or self._table.lane(number, standing.lanes) == standing.lane)
        )
        expected = [number for number, _ in zip(left, rows, strict=False)]
        if list(rows) != expected:
            self._fail(f"{owner} is given rows {rows} in lane {standing.lane}, and {expected} come next there")
        begun.update(rows)

    def failed(self, owner: str, rows: Iterable[int]) -> None:
        """A call failed: its rows come again before those behind them."""
        self.begun[owner].difference_update(rows)

    def kept(self, before: Document, after: Document, handled: set[int]) -> None:
        """A write of the document: whatever it says to be done above the checkpoint was done by who writes it, or was
        known before. `handled`: what the writer's handlers did."""
        same = before["checkpoint"]["generation"] == after["checkpoint"]["generation"]
        known = (self.covered(before) if same else set()) | handled
        wrong = sorted(self.covered(after) - known)
        if wrong:
            self._fail(f"the document says that lanes have done rows {wrong}, which nobody did")
