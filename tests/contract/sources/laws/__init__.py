"""The laws, by subject. Each class can be run by itself; `SourceLaws` is all of them."""

from __future__ import annotations

from tests.contract.sources.laws.changes import ChangeLaws

__all__ = ["ChangeLaws", "SourceLaws"]


class SourceLaws(ChangeLaws):
    """All laws of a source."""
