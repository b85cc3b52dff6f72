"""Handlers that another process can import."""

from __future__ import annotations

from poller import Batch


def nothing(batch: Batch) -> None:
    """As little as can be."""
