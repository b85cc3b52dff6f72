"""The fleet of `tests.resilience.kills`, and what stands between it and its services."""

from tests.resilience.kills.conftest import fleets, proxy

__all__ = ["fleets", "proxy"]
