"""A handler by its name, `module:function`, imported from beside `poller.toml`; a failure is one line with the key."""

from __future__ import annotations

import difflib
import importlib
import sys
import threading
import traceback
from pathlib import Path

from poller import forks
from poller.errors import ConfigError
from poller.handler.call import Handler, check_handler

_imported: dict[str, Path] = {}
"""Which folder each module came from. A module of the same name beside another `poller.toml` is another module."""


class _Importing:
    """Pollers of one process start at the same time, and forgetting a module of another folder must not hit an
    import."""

    def __init__(self) -> None:
        self.reset_after_fork()
        forks.in_child(self.reset_after_fork)

    def reset_after_fork(self) -> None:
        self.lock = threading.RLock()


_importing = _Importing()


def import_handler(name: str | None, *, folder: Path, key: str, file: str = "") -> Handler:
    """The function that `module:function` names, the module looked for in `folder` first.

    Args:
        name: as configured; None: it is not. folder: where `poller.toml` stands. key, file: for the error.
    Raises: ConfigError: no such module, no such function, a generator, or an error inside the module, by its type and
        line. The error's own text is shown only where it cannot quote a secret.
    """
    where = f"{file}: {key}" if file else key
    if name is None:
        step = 'Name a function as "module:function", or pass one to tick().'
        raise ConfigError(f"{where}: is missing.", key=key, file=file, next_step=step)
    module_name, _, attributes = name.partition(":")
    try:
        found, missing = _found(_imported_from(folder, module_name), attributes)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever the user's module raises
        why, step = _why(error, module_name, folder)
        problem = ConfigError(f"{where}: {why}.", key=key, file=file, next_step=step)
    else:
        if missing is not None:
            close = difflib.get_close_matches(missing, _public(found), n=1)
            hint = f'; did you mean "{close[0]}"?' if close else "."
            problem = ConfigError(f'{where}: module "{module_name}" has no "{attributes}"{hint}', key=key, file=file)
            problem.next_step = f'Define "{attributes}" there, or name another.'
        elif callable(found):
            check_handler(found, key=key, file=file)
            return found
        else:
            problem = ConfigError(f"{where}: {name} is not a function.", key=key, file=file)
    raise problem


def _found(found: object, attributes: str) -> tuple[object, str | None]:
    """What a dotted name means; or how far it leads, and the part that is not there. Raises what a module raises that
    makes its attributes itself."""
    for attribute in attributes.split("."):
        inner = getattr(found, attribute, None)
        if inner is None:
            return found, attribute
        found = inner
    return found, None


def _public(owner: object) -> list[str]:
    try:
        return [name for name in dir(owner) if not name.startswith("_")]
    except Exception:  # noqa: BLE001 - it only helps with a name that was misspelt
        return []


def _imported_from(folder: Path, module: str) -> object:
    top = module.partition(".")[0]
    with _importing.lock:
        if _imported.get(top, folder) != folder:
            for loaded in [m for m in sys.modules if m == top or m.startswith(f"{top}.")]:
                del sys.modules[loaded]
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        found = importlib.import_module(module)
        _imported[top] = folder
        return found


def _why(error: BaseException, module: str, folder: Path) -> tuple[str, str]:
    """What failed, and what to do about it."""
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
        step = f"Make {error.name.replace('.', '/')}.py there, or name another module."
        return f'there is no module "{error.name}" in {folder}, nor installed', step
    if isinstance(error, SyntaxError):
        name = Path(error.filename or module).name
        why = f'module "{module}" cannot be imported: {name}, line {error.lineno}: {type(error).__name__}: {error.msg}'
        return why, f"Fix {name}."
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    inside = [f for f in frames if Path(f.filename).is_relative_to(folder)]
    if not inside and isinstance(error, OSError) and error.filename:
        return f"{error.filename} cannot be read: {error.strerror}", "Let this process's user read it."
    last = (inside or frames)[-1:]
    place = "".join(f"{Path(one.filename).name}, line {one.lineno}: " for one in last)
    step = f"Fix {Path(last[0].filename).name}." if last else ""
    if isinstance(error, ModuleNotFoundError) and error.name:
        step = f"Install what {error.name} is part of, or correct its name."
    text = f": {error}" if isinstance(error, (ImportError, NameError)) else ""
    return f'module "{module}" cannot be imported: {place}{type(error).__name__}{text}', step
