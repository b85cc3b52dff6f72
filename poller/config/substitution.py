"""`%NAME%` in a value is an environment variable, as in Functions bindings (design, "Configuration")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from poller.errors import ConfigError

VERBATIM = frozenset({"filter", "query"})
"""Keys whose values are SQL, in which a percent is a percent."""

_REFERENCE = re.compile(r"%%|%([A-Z_][A-Z0-9_]*)%")


class MissingSetting(ConfigError):
    """A value names an environment variable that is not set here. It may be set where the file is deployed."""


def substitute(value: Any, environ: Mapping[str, str], *, key: str = "", file: str = "") -> Any:
    """The same tree with every `%NAME%` replaced and every `%%` made a percent; other percents stay.

    Raises: MissingSetting, naming the dotted key and the variable that is missing; never a value.
    """
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: _one(match, environ, key, file), value)
    if isinstance(value, list):
        return [substitute(v, environ, key=f"{key}[{n}]", file=file) for n, v in enumerate(value)]
    if isinstance(value, dict):
        return {
            name: v
            if name in VERBATIM and isinstance(v, str)
            else substitute(v, environ, key=f"{key}.{name}" if key else name, file=file)
            for name, v in value.items()
        }
    return value


def references(value: Any) -> list[str]:
    """The variables that a value names, in order; empty for what is not a text."""
    return [name for name in _REFERENCE.findall(value) if name] if isinstance(value, str) else []


def _one(match: re.Match[str], environ: Mapping[str, str], key: str, file: str) -> str:
    name = match.group(1)
    if name is None:
        return "%"
    if name not in environ:
        raise MissingSetting(
            (f"{file}: " if file else "") + f"{key}: the environment variable {name} is not set.",
            key=key,
            file=file,
            next_step=f"Set {name} (an app setting in Azure), or write %% where a percent is meant.",
        )
    return environ[name]
