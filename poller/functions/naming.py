"""What the functions of an app are called."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from poller.errors import ConfigError


class FunctionNames:
    """The functions of one file, each name once."""

    def __init__(self, file: Path) -> None:
        self._file = str(file)
        self._taken: dict[str, str] = {}

    def take(self, poller: str) -> str:
        """The function's name for a poller. Raises: ConfigError, if another poller's function is called so."""
        function = function_name(poller)
        other = self._taken.setdefault(function, poller)
        if other != poller:
            raise ConfigError(
                f"{self._file}: pollers.{other} and pollers.{poller} would both be the function {function!r}.",
                key=f"pollers.{poller}",
                file=self._file,
                next_step="Rename one of them.",
            )
        return function

    def find(self, poller: str) -> str:
        """A name that no other function has, whatever the poller is called."""
        return next(one for one in _like(function_name(poller)) if self._taken.setdefault(one, poller) == poller)

    def beside(self, wanted: str) -> str:
        """A name for a function that is not a poller's, and that no other function has."""
        name = next(one for one in _like(wanted) if one not in self._taken)
        self._taken[name] = ""
        return name


def _like(wanted: str) -> Iterator[str]:
    return itertools.chain([wanted], (f"{wanted}_{n}" for n in itertools.count(2)))


def function_name(poller: str) -> str:
    """A function's name begins with a letter and has letters, digits and underscores here, at most 127 for the host."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", poller)[:100]
    return name if name[:1].isalpha() else f"poller_{name}"
