"""Reading `poller.toml`: TOML, `include`, templates, `%NAME%`, then the models. Nothing here opens a connection."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from poller.config.includes import WrittenConfig
from poller.config.options import PollerOptions
from poller.config.problems import at, explain
from poller.config.sqlite_paths import anchor_state
from poller.config.substitution import references, substitute
from poller.config.tables import AppConfig, StateOptions
from poller.config.templates import Inherited
from poller.errors import ConfigError


def load_config(path: str | os.PathLike[str], environ: Mapping[str, str] | None = None) -> AppConfig:
    """Read, substitute and check a configuration file and what it includes.

    Args:
        path: of the file. environ: where `%NAME%` is looked up; default: this process's environment.
    Raises: ConfigError, in one line that names the file and the dotted key, and never a substituted value.
    """
    inherited = _read(path, environ)
    head = inherited.head()
    inherited.check_templates()
    pollers = inherited.written.tree.get("pollers")
    if isinstance(pollers, dict):
        pollers = {name: inherited.poller(name) for name in pollers}
    return _checked(inherited, head, pollers)


def load_each(
    path: str | os.PathLike[str], environ: Mapping[str, str] | None = None, *, text: str | None = None
) -> tuple[AppConfig | None, dict[str, ConfigError]]:
    """Read a configuration file as `load_config` does, each poller separately: a wrong one does not hide the others.

    Args:
        path, environ: as for `load_config`. text: what would be in the file, instead of what does.
    Returns: the configuration with the pollers that are right, None if none is; and why each of the others is wrong.
        What is wrong for several of them, as in `[state]` or a template, is the error of each.
    Raises: ConfigError, if a file cannot be read, or none names a poller.
    """
    inherited = _read(path, environ, text)
    names = inherited.written.table("pollers")
    if not names:
        return _checked(inherited, inherited.head(), inherited.written.tree.get("pollers")), {}
    try:
        head = inherited.head()
    except ConfigError as error:
        return None, dict.fromkeys(names, error)
    some: AppConfig | None = None
    right, wrong = {}, {}
    for name in names:
        try:
            some = _checked(inherited, head, {name: inherited.poller(name)})
        except ConfigError as error:
            wrong[name] = error
        else:
            right[name] = some.pollers[name]
    return (None if some is None else some.model_copy(update={"pollers": right})), wrong


def schedules_of(
    path: str | os.PathLike[str], names: Iterable[str], environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The schedules of pollers, whatever else is wrong with them: the one that is written nearest to each, or the
    default's where that is not valid.

    Args: as for `load_config`; names: of the pollers.
    Raises: ConfigError, if a file cannot be read.
    """
    variables = os.environ if environ is None else environ
    inherited = _read(path, variables)
    found = {}
    for name in names:
        text: Any = None
        with suppress(ConfigError):
            tables = [("pollers", name), *inherited.ancestors(name)]
            written = (at(inherited.written.tree, (*table, "schedule")) for table in tables)
            text = substitute(next((one for one in written if one is not None), None), variables)
        found[name] = _valid_schedule(text)
    return found


def _valid_schedule(text: Any) -> str:
    with suppress(ConfigError):
        return poller_options({} if text is None else {"schedule": text}).schedule
    return PollerOptions().schedule


def _read(path: str | os.PathLike[str], environ: Mapping[str, str] | None, text: str | None = None) -> Inherited:
    variables = os.environ if environ is None else environ
    return Inherited(WrittenConfig.read(Path(path), variables, text=text), variables)


def _checked(inherited: Inherited, head: Mapping[str, Any], pollers: Any) -> AppConfig:
    """`pollers`: as they were found, None if there are none."""
    tree = {**head} if pollers is None else {**head, "pollers": pollers}
    anchor_state(tree.get("state"), inherited.written.file.resolve().parent)
    try:
        config = AppConfig.model_validate(tree)
    except ValidationError as error:
        problem = explain(error, origin=inherited)
    else:
        _note_settings(config.state, inherited.written.tree.get("state"))
        return config.written_in(inherited.written.elsewhere)
    raise problem


def _note_settings(state: StateOptions, written: Any) -> None:
    """What its texts are in the file, so that no error repeats a setting's value."""
    texts = written if isinstance(written, dict) else {}
    state.written_as({str(getattr(state, key, "")): text for key, text in texts.items() if references(text)})


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
