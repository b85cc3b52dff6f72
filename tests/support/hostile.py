"""Objects that misbehave when they are shown."""

from __future__ import annotations


class Hostile(Exception):
    """Raises whatever it was given when it is asked what it says."""

    def __str__(self) -> str:
        raise self.args[0]

    __repr__ = __str__
