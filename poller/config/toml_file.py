"""The text of a configuration file, and its TOML."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from poller.errors import ConfigError

DEEPEST = 20
"""The number of tables and lists that may be in each other; no key needs more than five."""
_TOO_DEEP = f"it is nested more than {DEEPEST} deep"


def read_text(file: Path) -> str:
    """What is in a configuration file. Raises: ConfigError, if it is missing, not to be read, or no UTF-8."""
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        problem = ConfigError(
            f"There is no configuration file {file}.",
            file=str(file),
            next_step="Name one with -c FILE or POLLER_CONFIG.",
        )
    except UnicodeDecodeError:
        problem = ConfigError(f"{file}: is not UTF-8 text.", file=str(file))
    except OSError as error:
        problem = ConfigError(f"{file}: cannot be read: {error.strerror}.", file=str(file))
    raise problem


def parse(text: str, file: Path) -> dict[str, Any]:
    """A configuration file's text as a tree; `file`: its name, for the error. Raises: ConfigError."""
    try:
        tree = tomllib.loads(text.removeprefix("\ufeff"))  # Windows editors put a mark in front
    except ValueError as error:  # TOMLDecodeError, and what Python says of a number of thousands of digits
        reason = str(error)
    except RecursionError:
        reason = _TOO_DEEP
    else:
        if not _is_deeper(tree, DEEPEST):
            return tree
        reason = _TOO_DEEP
    raise ConfigError(f"{file}: is not valid TOML: {reason}.", file=str(file))


def _is_deeper(tree: dict[str, Any], limit: int) -> bool:
    """Without recursion, which such a tree would end."""
    level: list[Any] = [tree]
    while level and limit:
        limit -= 1
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
    return bool(level)
