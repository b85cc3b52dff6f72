"""The fleet of `tests.kills`, and what stands between it and its services."""

from tests.kills.conftest import fleets, proxy

__all__ = ["fleets", "proxy"]
