"""Reading `poller.toml`: TOML, `[defaults]`, `%NAME%`, then the models. Nothing here opens a connection."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from poller.config.options import AppConfig, PollerOptions
from poller.config.problems import explain
from poller.config.substitution import substitute
from poller.errors import ConfigError

DEFAULT_STATE_URL = "sqlite:///state.db"
"""The embedded store, where `store = "sql"` names no database."""


def load_config(path: str | os.PathLike[str], environ: Mapping[str, str] | None = None) -> AppConfig:
    """Read, substitute and check a configuration file.

    Args:
        path: of the file. environ: where `%NAME%` is looked up; default: this process's environment.
    Raises: ConfigError, in one line that names the file and the dotted key, and never a substituted value.
    """
    file = Path(path)
    return _checked(parse(read_text(file), file), file, os.environ if environ is None else environ)


def load_each(
    path: str | os.PathLike[str], environ: Mapping[str, str] | None = None, *, text: str | None = None
) -> tuple[AppConfig | None, dict[str, ConfigError]]:
    """Read a configuration file as `load_config` does, each poller by itself: a wrong one does not hide the others.

    Args:
        path, environ: as for `load_config`. text: what would stand in the file, instead of what does.
    Returns: the configuration with the pollers that are right, None where none is; and why each of the others is wrong.
        What is wrong for all of them, as in `[state]`, is the error of each.
    Raises: ConfigError, where the file cannot be read, or names no poller.
    """
    file = Path(path)
    variables = os.environ if environ is None else environ
    raw = parse(read_text(file) if text is None else text, file)
    named = raw.get("pollers")
    if not isinstance(named, dict) or not named:
        return _checked(raw, file, variables), {}
    right: AppConfig | None = None
    wrong: dict[str, ConfigError] = {}
    for name, own in named.items():
        try:
            one = _checked({**raw, "pollers": {name: own}}, file, variables)
        except ConfigError as error:
            wrong[name] = error
        else:
            right = one if right is None else right.model_copy(update={"pollers": {**right.pollers, **one.pollers}})
    return right, wrong


def schedule_of(path: str | os.PathLike[str], name: str, environ: Mapping[str, str] | None = None) -> str:
    """The schedule of a poller of which other things may be wrong: its own, or the default's where it has no valid one.

    Args: as for `load_config`; name: of the poller.
    Raises: ConfigError, where the file cannot be read.
    """
    file = Path(path)
    raw = parse(read_text(file), file)
    pollers = raw.get("pollers")
    own = pollers.get(name) if isinstance(pollers, dict) else None
    for table in (own, raw.get("defaults")):
        if isinstance(table, dict) and "schedule" in table:
            with suppress(ConfigError):
                text = substitute(table["schedule"], os.environ if environ is None else environ)
                return poller_options({"schedule": text}).schedule
            break
    return PollerOptions().schedule


def _checked(raw: dict[str, Any], file: Path, variables: Mapping[str, str]) -> AppConfig:
    tree = _with_defaults(substitute(raw, variables, file=str(file)), str(file))
    _anchor(tree, file.resolve().parent)
    try:
        return AppConfig.model_validate(tree)
    except ValidationError as error:
        problem = explain(error, raw=raw, file=str(file))
    raise problem


def poller_options(options: Mapping[str, Any]) -> PollerOptions:
    """Check options given as keywords in Python.

    Raises: ConfigError naming the keyword.
    """
    return checked_keywords(PollerOptions, options)


_Model = TypeVar("_Model", bound=BaseModel)


def checked_keywords(model: type[_Model], options: Mapping[str, Any]) -> _Model:
    """Options given as keywords in Python, as a model. Raises: ConfigError naming the keyword."""
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        problem = explain(error, model=model)
    raise problem


def read_text(file: Path) -> str:
    """What stands in a configuration file. Raises: ConfigError, where it is missing, not to be read, or no UTF-8."""
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
        return tomllib.loads(text.removeprefix("\ufeff"))  # Windows editors put a mark in front
    except tomllib.TOMLDecodeError as error:
        problem = ConfigError(f"{file}: is not valid TOML: {error}.", file=str(file))
    raise problem


def _with_defaults(raw: dict[str, Any], file: str) -> dict[str, Any]:
    """The tree with [defaults] filled into every poller. A table is filled key by key."""
    tree = dict(raw)
    defaults = tree.pop("defaults", {})
    if not isinstance(defaults, dict):
        raise ConfigError(f"{file}: defaults: must be a table.", key="defaults", file=file)
    pollers = tree.get("pollers")
    if isinstance(pollers, dict):
        tree["pollers"] = {
            name: _filled(own, defaults) if isinstance(own, dict) else own for name, own in pollers.items()
        }
    return tree


def _filled(own: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    both = {**defaults, **own}
    for name in own.keys() & defaults.keys():
        if isinstance(own[name], dict) and isinstance(defaults[name], dict):
            both[name] = _filled(own[name], defaults[name])
    return both


def _anchor(tree: dict[str, Any], folder: Path) -> None:
    """Make relative SQLite paths start at the file's folder: which database is meant must not depend on where a
    command was started, or the fingerprint would."""
    state = tree.get("state")
    if isinstance(state, dict) and state.get("store") == "sql":
        state.setdefault("url", DEFAULT_STATE_URL)
    pollers = tree.get("pollers")
    sources = [p.get("source") for p in pollers.values() if isinstance(p, dict)] if isinstance(pollers, dict) else []
    for table in (state, *sources):
        if isinstance(table, dict) and isinstance(table.get("url"), str):
            table["url"] = anchored(table["url"], folder)


def anchored(url: str, folder: Path) -> str:
    """A SQLite URL with its relative path made absolute; any other URL as it is."""
    head, separator, path = url.partition(":///")
    name = path.partition("?")[0]
    if not separator or head.partition("+")[0] != "sqlite" or name in {"", ":memory:"} or name.startswith("file:"):
        return url
    if PurePosixPath(name).is_absolute() or PureWindowsPath(name).is_absolute():
        return url
    return f"{head}:///{(folder / path).as_posix()}"
