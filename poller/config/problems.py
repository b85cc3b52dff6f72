"""Validation errors as one line that names the key. No value is repeated: it may have come out of a setting."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from poller.config.options import AppConfig, PollerConfig, SourceConfig, StateOptions
from poller.config.substitution import references
from poller.errors import ConfigError

_TYPES = {
    "string_type": "must be a text in quotes",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "missing": "is missing",
    "string_too_short": "is empty",
    "too_short": "is empty",
    "setting": "is not an NCRONTAB expression of six fields",
}


def explain(
    error: ValidationError, *, raw: Mapping[str, Any] | None = None, file: str = "", model: type[BaseModel] = AppConfig
) -> ConfigError:
    """The first problem as a ConfigError; with several, it says how many more there are.

    Args:
        error: as pydantic raised it. raw: the file's own tree, before substitution. file: its name for people.
        model: what was validated.
    """
    problems = error.errors(include_url=False, include_input=False)
    # An unknown key explains a missing one (a typing error in a required key's name), so it goes first.
    first = min(problems, key=lambda p: p["type"] != "extra_forbidden")
    path = _place(tuple(str(p) for p in first["loc"]), dict(first.get("ctx") or {}), raw)
    key = ".".join(path)
    if first["type"] == "extra_forbidden":
        text = f"{key}: there is no such key{suggestion(path[-1], keys_at(path[:-1], model))}"
    else:
        ctx = first.get("ctx") or {}
        names = references(_at(raw, path)) if raw is not None else []
        # A schedule's own words quote it, and what came out of a setting is never shown.
        kind = "setting" if names and first["type"] == "schedule" else first["type"]
        origin = f" (its value comes from {', '.join(names)})" if names else ""
        text = f"{key}: {_reason(kind, first['msg'], ctx)}{origin}."
    if len(problems) > 1:
        text += f" ({len(problems) - 1} more like this.)"
    return ConfigError(f"{file}: {text}" if file else text, key=key, file=file)


def located(error: ConfigError, table: str, file: str) -> ConfigError:
    """The same error with its place: sources and stores know their keyword, not the file it came from."""
    key = error.key if error.key.startswith(f"{table}.") else f"{table}.{error.key}".rstrip(".")
    where = f"{file}: {key}" if file else key
    return ConfigError(f"{where}: {error.message}", key=key, file=file, next_step=error.next_step)


def find_poller(config: AppConfig, name: str, *, file: str) -> PollerConfig:
    """One poller of a file. Raises: ConfigError where the file has no such poller, with what it has."""
    found = config.pollers.get(name)
    if found is None:
        raise ConfigError(
            f"{file}: there is no poller {name!r}{suggestion(name, sorted(config.pollers))}",
            key=f"pollers.{name}",
            file=file,
        )
    return found


def suggestion(name: str, known: list[str]) -> str:
    """How a sentence about an unknown name ends: with what was probably meant, or with what there is."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f'; did you mean "{close[0]}"?'
    return f"; there are: {', '.join(known)}." if known else "."


def keys_at(path: tuple[str, ...], model: type[BaseModel] = AppConfig) -> list[str]:
    """The keys that may stand in the table at `path`, as they are written in the file."""
    if model is not AppConfig:
        return _names(model)
    match path:
        case ():
            return sorted([*_names(AppConfig), "defaults"])
        case ("state",):
            return _names(StateOptions)
        case ("defaults",) | ("pollers", _):
            return _names(PollerConfig)
        case ("defaults", "source") | ("pollers", _, "source"):
            return _names(SourceConfig)
    return []


def _names(model: type[BaseModel]) -> list[str]:
    return sorted(field.alias or name for name, field in model.model_fields.items())


def _place(path: tuple[str, ...], ctx: Mapping[str, Any], raw: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Where the key stands in the file: a value that a poller has from [defaults] is at fault there."""
    if "key" in ctx:
        path = (*path, str(ctx["key"]))
    if path[-1:] == ("[key]",):
        path = path[:-1]
    if raw is not None and path[:1] == ("pollers",) and _at(raw, path) is None:
        inherited = ("defaults", *path[2:])
        if _at(raw, inherited) is not None:
            return inherited
    return path


def _reason(kind: str, message: str, ctx: Mapping[str, Any]) -> str:
    if kind in _TYPES:
        return _TYPES[kind]
    if kind == "literal_error":
        return f"must be one of {ctx.get('expected', '')}".replace("'", '"')
    if kind in {"greater_than_equal", "less_than_equal"}:
        return f"must be at {'least' if kind[0] == 'g' else 'most'} {ctx.get('ge', ctx.get('le'))}"
    return message


def _at(tree: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if isinstance(tree, Mapping):
            tree = tree.get(part)
        elif isinstance(tree, list) and part.isdigit() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return None
    return tree
