"""A poller.toml that exists: what `poller init` takes from it, and what it adds. What is in it stays as it is."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from poller.admin.refusals import Refused, WrongArgument
from poller.config.includes import WrittenConfig
from poller.config.sqlite_paths import anchored
from poller.config.substitution import references, substitute
from poller.config.toml_file import parse, read_text
from poller.databases.urls import identify, read_url
from poller.errors import ConfigError
from poller.project.new_poller import NewPoller


@dataclass(frozen=True)
class ProjectFile:
    """The file and what it holds.

    Attributes:
        text: of the file, its mark and its line ends included. tree: the same, parsed, `%NAME%` as written.
        written: the same, with the files that it includes.
    """

    path: Path
    text: str = field(repr=False)
    tree: Mapping[str, Any] = field(repr=False)
    written: WrittenConfig = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> ProjectFile:
        """Raises: ConfigError, if it, or a file that it includes, cannot be read or is not TOML."""
        text = read_text(path)
        return cls(path, text, parse(text, path), WrittenConfig.read(path, os.environ, text=text))

    def of_app(self, app: str | None, state: str | None, environ: Mapping[str, str]) -> tuple[str, str]:
        """The application's name and its store, both as the file has them.

        Args:
            app, state: what was asked for, if it was. environ: where settings are looked up.
        Raises: WrongArgument, if another was asked for; ConfigError.
        """
        name = substitute(self.tree.get("app_name"), environ, key="app_name", file=str(self.path))
        if not isinstance(name, str):
            raise ConfigError(f"{self.path}: app_name: is missing.", key="app_name", file=str(self.path))
        table = self.tree.get("state")
        store = str(table.get("store", "blob")) if isinstance(table, dict) else "blob"
        for option, given, there in (("--app", app, name), ("--state", state, store)):
            if given is not None and given != there:
                raise WrongArgument(
                    f"{option} is {given!r}, and {self.path} says {there!r} for all its pollers; nothing was changed.",
                    next_step=f"Leave {option} out to add a poller there, or name another file with -c.",
                )
        return name, store

    def free(self, name: str) -> str:
        """The name. Raises: Refused, if there is a poller of that name."""
        if name in self.written.table("pollers"):
            raise Refused(
                f"{self.written.file_of(('pollers', name))} has a poller {name!r} already; nothing was changed.",
                next_step="Name the new one with --name.",
            )
        return name

    def setting_of(self, url: str, environ: Mapping[str, str]) -> str | None:
        """The setting from which a poller of this file has the same database (as the same user, with the same
        options), if one does.

        Args:
            url: of the database. environ: where settings are looked up; one that is not set there is not compared.
        """
        folder = self.path.resolve().parent
        for name in self.settings_of_urls():
            if name in environ and _access(anchored(environ[name], folder)) == _access(url):
                return name
        return None

    def is_free(self, setting: str, environ: Mapping[str, str]) -> bool:
        """True if the file does not take anything else from this setting. One that is not set here may be this very
        database's: the `init` before has named it so."""
        return setting not in _settings_in(self.written.tree) or (
            setting in self.settings_of_urls() and setting not in environ
        )

    def with_poller(self, new: NewPoller) -> str:
        """The file's text with the new poller at its end. Raises: WrongArgument, if it cannot are there."""
        text = appended(self.text, new.tables(self._defaults))
        try:
            tree = parse(text, self.path)
        except ConfigError:
            tree = {}
        pollers = {**tree.get("pollers", {})}
        if pollers.pop(new.name, None) is None or {**tree, "pollers": pollers} != {
            **self.tree,
            "pollers": self._pollers,
        }:
            raise WrongArgument(
                f"{self.path} is written so that no table can be added at its end (`pollers` in braces?); nothing was "
                "changed.",
                next_step="Write its pollers as tables, [pollers.NAME], and try again.",
            )
        return text

    @property
    def schema(self) -> str | None:
        """The schema in which a poller looks that names none; None if that is left to the database."""
        found = self._defaults.get("source")
        schema = found.get("schema") if isinstance(found, dict) else None
        name = substitute(schema, os.environ, key="defaults.source.schema", file=str(self.path))
        return name if isinstance(name, str) else None

    @property
    def identity(self) -> bool | str:
        """Who signs in for a poller that does not say it."""
        found = self._defaults.get("source")
        said = found.get("identity", False) if isinstance(found, dict) else False
        known = substitute(said, os.environ, key="defaults.source.identity", file=str(self.path))
        return known if isinstance(known, bool | str) else False

    @property
    def _pollers(self) -> Mapping[str, Any]:
        found = self.tree.get("pollers")
        return found if isinstance(found, dict) else {}

    @property
    def _defaults(self) -> Mapping[str, Any]:
        found = self.tree.get("defaults")
        return found if isinstance(found, dict) else {}

    def settings_of_urls(self) -> list[str]:
        """Settings that are the whole URL of a source, in the file's order."""
        found: dict[str, None] = {}
        others = [self.written.table(name).values() for name in ("templates", "pollers")]
        for table in (self._defaults, *chain.from_iterable(others)):
            source = table.get("source") if isinstance(table, dict) else None
            url = source.get("url") if isinstance(source, dict) else None
            names = references(url)
            if len(names) == 1 and url == f"%{names[0]}%":
                found[names[0]] = None
        return list(found)


def handlers_with(path: Path, new: NewPoller) -> str | None:
    """The text of `handlers.py` with the new poller's handler at its end; None if it has one of that name.

    Raises: WrongArgument, if the file is not Python or cannot be read.
    """
    try:
        text = path.read_bytes().decode()
        body = ast.parse(text.removeprefix("\ufeff")).body
    except (OSError, ValueError, SyntaxError) as error:
        why = getattr(error, "msg", None) or getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise WrongArgument(
            f"{path}: a handler cannot be added: {why}; nothing was changed.", next_step=f"Fix {path.name}."
        ) from None
    names = {name for statement in body for name in _bound(statement)}
    if new.function in names:
        return None
    return appended(text, "\n" + new.handler(annotated=any(map(_imports_batch, body))))


def appended(text: str, more: str) -> str:
    """The text, a blank line, and more, with the line ends of the text; all of it stays as it is."""
    ends = "\r\n" if "\r\n" in text else "\n"
    if not text.strip("\ufeff"):
        return text + more.lstrip("\n")
    return text + ends * (1 if text.endswith("\n") else 2) + ends.join(more.split("\n"))


def _imports_batch(statement: ast.stmt) -> bool:
    """True if `Batch` is there when the module runs, not only for a type checker."""
    return isinstance(statement, ast.Import | ast.ImportFrom) and "Batch" in _bound(statement)


def _bound(statement: ast.AST) -> Iterator[str]:
    """The names that a module's statement gives something, in whatever branch, and those that a function in it takes
    for the module's: a second one of that name would replace the first."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
            for inner in ast.walk(statement):
                if isinstance(inner, ast.Global):
                    yield from inner.names
            return
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (one.asname or one.name for one in names)
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
    for inner in ast.iter_child_nodes(statement):
        yield from _bound(inner)


def _settings_in(tree: Any) -> set[str]:
    """Every setting that is named anywhere in it."""
    if isinstance(tree, Mapping):
        return {name for value in tree.values() for name in _settings_in(value)}
    if isinstance(tree, list):
        return {name for value in tree for name in _settings_in(value)}
    return set(references(tree))


def _access(url: str) -> object:
    """What must be alike for one setting to serve two pollers: the database, who asks it, and how."""
    try:
        parsed = read_url(url, key="url")
    except ConfigError:
        return object()
    return identify(parsed), parsed.username, sorted((name, value) for name, value in parsed.query.items())
