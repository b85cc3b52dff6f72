"""The places where a handler may run, for the tests of this folder."""

from tests.unit.handler.calls import process, run

__all__ = ["process", "run"]
