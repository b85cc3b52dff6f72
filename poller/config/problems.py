"""Validation errors as one line that names the key. No value is repeated: it may have come out of a setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from poller.config import former
from poller.config.includes import WrittenConfig
from poller.config.relays import UNKNOWN_KEY
from poller.config.substitution import references
from poller.config.suggestions import suggestion
from poller.config.tables import (
    AppConfig,
    FunctionsOptions,
    PollerConfig,
    RunOptions,
    SourceConfig,
    StateOptions,
)
from poller.errors import ConfigError
from poller.model.escape import cut

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


_NO_SUCH_KEY = frozenset({"extra_forbidden", UNKNOWN_KEY})


class ConfigFiles(Protocol):
    """The files that a tree was made from."""

    @property
    def written(self) -> WrittenConfig:
        """What is in them, before substitution."""

    def place(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Where a key stands: a poller has it from its own table, a template or the defaults."""


def explain(
    error: ValidationError, *, origin: ConfigFiles | None = None, model: type[BaseModel] = AppConfig
) -> ConfigError:
    """The first problem as a ConfigError; with several, it says how many more there are. What many pollers have from
    one table counts once.

    Args:
        error: as pydantic raised it. origin: the files; None for keywords. model: what was validated.
    """
    problems = error.errors(include_url=False, include_input=False)
    # An unknown key explains a missing one (a typing error in a required key's name), so it goes first.
    first = min(problems, key=lambda p: p["type"] not in _NO_SUCH_KEY)
    others = len({(_place(one, (), origin), one["msg"]) for one in problems}) - 1
    return _error(first, _place(first, (), origin), others, origin, model)


def explain_part(error: ValidationError, table: tuple[str, ...], *, origin: ConfigFiles) -> ConfigError | None:
    """The same for a table at a place of its own, which is not a whole poller: what is missing there, or does not fit
    together, is in the pollers; None if there is no other problem."""
    problems = [
        one
        for one in error.errors(include_url=False, include_input=False)
        if one["type"] != "missing" and "key" not in (one.get("ctx") or {})
    ]
    if not problems:
        return None
    first = min(problems, key=lambda p: p["type"] not in _NO_SUCH_KEY)
    return _error(first, _place(first, table, origin), len(problems) - 1, origin, AppConfig)


def _error(
    problem: ErrorDetails, path: tuple[str, ...], others: int, origin: ConfigFiles | None, model: type[BaseModel]
) -> ConfigError:
    key = ".".join(path)
    file = origin.written.file_of(path) if origin is not None else ""
    step = (problem.get("ctx") or {}).get("step", "")
    if problem["type"] in _NO_SUCH_KEY and path[-1] in former.KEYS:
        text, step = f"{cut(key)}: there is no such key any more.", former.KEYS[path[-1]]
    elif problem["type"] in _NO_SUCH_KEY:
        known = (problem.get("ctx") or {}).get("known") or keys_at(path[:-1], model)
        text = f"{cut(key)}: there is no such key{suggestion(path[-1], known)}"
    else:
        names = references(at(origin.written.tree, path)) if origin is not None else []
        # A schedule's own words quote it, and what came out of a setting is never shown.
        kind = "setting" if names and problem["type"] == "schedule" else problem["type"]
        origins = f" (its value comes from {', '.join(names)})" if names else ""
        text = f"{cut(key)}: {_reason(kind, problem['msg'], problem.get('ctx') or {})}{origins}."
    if others:
        text += f" ({others} more like this.)"
    return ConfigError(f"{file}: {text}" if file else text, key=key, file=file, next_step=step)


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


def keys_at(path: tuple[str, ...], model: type[BaseModel] = AppConfig) -> list[str]:
    """The keys that may be in the table at `path`, as they are written in the file."""
    if model is not AppConfig:
        return _names(model)
    match path:
        case ():
            return sorted([*_names(AppConfig), "defaults", "templates"])
        case ("state",):
            return _names(StateOptions)
        case ("functions",):
            return _names(FunctionsOptions)
        case ("run",):
            return _names(RunOptions)
        case ("pollers", _):
            return _names(PollerConfig)
        case ("defaults",) | ("templates", _):
            return [name for name in _names(PollerConfig) if name != "template"]
        case ("defaults", "source") | ("pollers" | "templates", _, "source"):
            return _names(SourceConfig)
    return []


def _names(model: type[BaseModel]) -> list[str]:
    return sorted(field.alias or name for name, field in model.model_fields.items())


def _place(problem: ErrorDetails, table: tuple[str, ...], origin: ConfigFiles | None) -> tuple[str, ...]:
    """Where the key is in the file: a value that a poller has from a template or [defaults] is at fault there."""
    path = (*table, *(str(part) for part in problem["loc"]))
    if "key" in (ctx := problem.get("ctx") or {}):
        path = (*path, *str(ctx["key"]).split("."))
    if "unknown" in ctx:
        path = (*path, str(ctx["unknown"]))
    if path[-1:] == ("[key]",):
        path = path[:-1]
    return path if origin is None else origin.place(path)


def _reason(kind: str, message: str, ctx: Mapping[str, Any]) -> str:
    if kind in _TYPES:
        return _TYPES[kind]
    if kind == "literal_error":
        return f"must be one of {ctx.get('expected', '')}".replace("'", '"')
    if kind in {"greater_than_equal", "less_than_equal"}:
        return f"must be at {'least' if kind[0] == 'g' else 'most'} {ctx.get('ge', ctx.get('le'))}"
    return message


def at(tree: Any, path: tuple[str, ...]) -> Any:
    """What is at a place of a tree; None if there are none."""
    for part in path:
        if isinstance(tree, Mapping):
            tree = tree.get(part)
        elif isinstance(tree, list) and part.isdigit() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return None
    return tree
