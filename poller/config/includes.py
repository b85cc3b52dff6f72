"""What is in `poller.toml` and in the files that it includes, `%NAME%` as written, and which file says what.

    include = ["pollers.d/*.toml"]

A file that is included holds `[pollers.NAME]` and `[templates.NAME]`, nothing else. Everything that is wrong with one
is wrong for the whole configuration: its pollers are not known, and an app that runs without them would look well.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poller.config.substitution import substitute
from poller.config.toml_file import parse, read_text
from poller.errors import ConfigError

SHARED = ("pollers", "templates")
"""The tables that an included file may have."""
_ONLY = "an included file holds [pollers.NAME] and [templates.NAME] only"


@dataclass(frozen=True)
class WrittenConfig:
    """A configuration as it is written.

    Attributes:
        file: `poller.toml`. tree: its tables, with the pollers and templates of the files that it includes.
        elsewhere: the file of each poller and template that is in an included one, by table and name.
    """

    file: Path
    tree: dict[str, Any] = field(repr=False)
    elsewhere: Mapping[tuple[str, str], str]

    @classmethod
    def read(cls, file: Path, environ: Mapping[str, str], *, text: str | None = None) -> WrittenConfig:
        """Read a configuration.

        Args:
            file: `poller.toml`. environ: where the settings that `include` names are looked up.
            text: what would be in the file, instead of what does.
        Raises: ConfigError, naming the file that cannot be read, or has what does not belong there.
        """
        tree = parse(read_text(file) if text is None else text, file)
        elsewhere: dict[tuple[str, str], str] = {}
        for one in _included(file, tree.get("include", []), environ):
            _add(tree, elsewhere, one, file)
        return cls(file, tree, elsewhere)

    def table(self, name: str) -> Mapping[str, Any]:
        """`pollers`, `templates` or `defaults`; empty if it is missing or no table."""
        found = self.tree.get(name)
        return found if isinstance(found, dict) else {}

    def file_of(self, path: Sequence[str]) -> str:
        """The name of the file in which the key at `path` stands."""
        return self.elsewhere.get((path[0], path[1]), str(self.file)) if len(path) > 1 else str(self.file)


def _included(file: Path, patterns: Any, environ: Mapping[str, str]) -> Iterable[Path]:
    """The files that the patterns match, in the order of their names. Raises: ConfigError."""
    if not isinstance(patterns, list) or not all(isinstance(one, str) and one for one in patterns):
        raise ConfigError(
            f"{file}: include: must be a list of texts.",
            key="include",
            file=str(file),
            next_step='Write include = ["pollers.d/*.toml"].',
        )
    found: set[str] = set()
    for pattern, looked_for in zip(patterns, substitute(patterns, environ, key="include", file=str(file)), strict=True):
        try:
            # Path.glob would match hidden files too: an editor's, and the folders behind a ConfigMap's links.
            matches = glob.glob(looked_for, root_dir=file.parent, recursive=True)  # noqa: PTH207
        except (ValueError, OSError, RecursionError):  # a zero byte, or a folder that cannot be walked
            matches = []
        if not matches:
            raise ConfigError(
                f"{file}: include: no file matches {pattern!r}, as seen from {file.resolve().parent}.",
                key="include",
                file=str(file),
                next_step="Correct the path, see that the folder is deployed too, or remove it from include.",
            )
        if any(os.path.normpath(match) == file.name for match in matches):
            raise ConfigError(
                f"{file}: include: {pattern!r} matches {file.name} itself.",
                key="include",
                file=str(file),
                next_step='Keep the others in a folder of their own: include = ["pollers.d/*.toml"].',
            )
        found.update(map(os.path.normpath, matches))
    return [file.parent / name for name in sorted(found)]


def _add(tree: dict[str, Any], elsewhere: dict[tuple[str, str], str], path: Path, main: Path) -> None:
    """Put the tables of an included file into the tree. Raises: ConfigError."""
    found = parse(_text_of(path, main), path)
    for key in found:
        if key not in SHARED:
            raise ConfigError(
                f"{path}: {key}: {_ONLY}.",
                key=key,
                file=str(path),
                next_step=_where_to(key, main),
            )
    for table, content in found.items():
        into = tree.setdefault(table, {})
        if not isinstance(content, dict) or not isinstance(into, dict):
            where = main if isinstance(content, dict) else path
            raise ConfigError(f"{where}: {table}: must be a table.", key=table, file=str(where))
        for name, own in content.items():
            if name in into:
                other = elsewhere.get((table, name), str(main))
                raise ConfigError(
                    f"{path}: {table}.{name}: is defined in {other} too.",
                    key=f"{table}.{name}",
                    file=str(path),
                    next_step="Rename one of them, or remove it.",
                )
            into[name] = own
            elsewhere[table, name] = str(path)


def _text_of(path: Path, main: Path) -> str:
    """What is in an included file. Raises: ConfigError."""
    if path.is_symlink() and not path.exists():
        raise ConfigError(
            f"{path}: is a link to a file that does not exist.",
            file=str(path),
            next_step=f"Correct or remove the link; {main} includes it.",
        )
    return read_text(path)


def _where_to(key: str, main: Path) -> str:
    if key == "include":
        return f"Name all files in include of {main}."
    if key in {"poller", "template"}:
        return f"Did you mean [{key}s.NAME]?"
    return f"Move it to {main}."
