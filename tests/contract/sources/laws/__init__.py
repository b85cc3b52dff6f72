"""The laws, by subject. Each class can be run by itself; `SourceLaws` is all of them."""

from __future__ import annotations

from tests.contract.sources.laws.changes import ChangeLaws
from tests.contract.sources.laws.costs import CostLaws
from tests.contract.sources.laws.late import LateLaws
from tests.contract.sources.laws.outages import OutageLaws
from tests.contract.sources.laws.rows import RowLaws
from tests.contract.sources.laws.texts import TextLaws
from tests.contract.sources.laws.trust import FailOverLaws, TrustLaws

__all__ = [
    "ChangeLaws", "CostLaws", "FailOverLaws", "LateLaws", "OutageLaws", "RowLaws", "SourceLaws", "TextLaws",
    "TrustLaws",
]  # fmt: skip


class SourceLaws(RowLaws, TextLaws, LateLaws, TrustLaws, FailOverLaws, ChangeLaws, OutageLaws, CostLaws):
    """All laws of a source."""
