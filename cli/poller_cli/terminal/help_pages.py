"""What `--help` shows: no value where an option takes none, no Python types, and nothing cut on a narrow terminal."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from poller_cli.terminal.layout import wrapped
from poller_cli.terminal.printing import coloured

NARROW = 70
"""Below so many columns the tables of the pages would cut words off: they are then written as plain lines."""


_UNUSED = ("rich.markdown", "rich.traceback")
"""What typer's pages import for ways to write them that are not used here: half of the time that a page takes."""


class Commands(MutableMapping[str, Any]):
    """The commands of the program, in groups: by name, with what the program's page says of each. `make`: one by its
    name, when it is first asked for."""

    def __init__(self, groups: Mapping[str, Mapping[str, str]], *, make: Callable[[str], Any]) -> None:
        self.groups = groups
        self._made: dict[str, Any] = dict.fromkeys(name for group in groups.values() for name in group)
        self._make = make

    def __getitem__(self, name: str) -> Any:
        if self._made[name] is None:
            self._made[name] = self._make(name)
        return self._made[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._made[name] = value

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def _load_pages() -> None:
    """Import what typer writes pages with, while empty modules stand for what is not used."""
    hidden = [name for name in _UNUSED if name not in sys.modules and "typer.rich_utils" not in sys.modules]
    sys.modules.update({name: _Empty(name) for name in hidden})
    try:
        import_module("typer.rich_utils")
    finally:
        for name in hidden:
            del sys.modules[name]


def _begin(mode: str | None, formatter: Any) -> None:
    """A page of plain lines breaks between words only: the formatter's own splits names and commands."""
    if mode is not None:
        _load_pages()
        return
    formatter.write_text = partial(_write_text, formatter)
    formatter.write_dl = partial(_write_list, formatter)


def _write_text(formatter: Any, text: str) -> None:
    indent = " " * formatter.current_indent
    parts = [f"{indent}{' '.join(part.split())}" for part in re.split(r"\n\s*\n", text.strip())]
    formatter.write("\n\n".join("\n".join(wrapped(one, formatter.width, hang=len(indent))) for one in parts) + "\n")


def _write_list(formatter: Any, rows: Sequence[tuple[str, str]]) -> None:
    """Names, and what there is to say beside them; beneath them, where the names take more than half of the width."""
    indent = " " * formatter.current_indent
    longest = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        beside = longest <= formatter.width // 2
        hang = len(indent) + (longest + 2 if beside else 4)
        lines = [f"{indent}{name:<{longest}}  {text}".rstrip()] if beside else [f"{indent}{name}", " " * hang + text]
        for line in lines:
            formatter.write("\n".join(wrapped(line, formatter.width, hang=hang)) + "\n")


_UsageError: Any = typer.BadParameter.__mro__[1]
"""What typer raises for a wrong command line that is of no parameter; it has no public name."""


class _Empty(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return object


class Command(TyperCommand):
    """A command whose page is as this module says."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The page."""
        _begin(self.rich_markup_mode, formatter)
        super().format_help(ctx, formatter)

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters and `--help`."""
        return [_plainly(one) for one in super().get_params(ctx)]


class Group(TyperGroup):
    """A group whose page is as this module says."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as it is called
        """The names, in order; makes none of the commands."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The page."""
        if isinstance(self.commands, Commands):
            formatter.write(_page(self.commands.groups, self.help or ""))
            return
        _begin(self.rich_markup_mode, formatter)
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of that name. Raises: the error of a wrong command line, with what was probably meant."""
        word = args[0] if args else ""
        if args and not word.startswith("-") and self.get_command(ctx, word) is None:
            from poller_cli.terminal.suggestions import instead

            meant = instead(word, self.list_commands(ctx)) if isinstance(self.commands, Commands) else ()
            said = ", ".join(f"poller {one}" for one in meant)
            said = said if len(meant) < 3 else " or ".join(said.rsplit(", ", 1))
            raise _UsageError(f"no command {word!r}.{f' Did you mean: {said}?' if said else ''}", ctx=ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Names and options; makes none of the commands."""
        commands = self.commands
        if not isinstance(commands, Commands):
            return super().shell_complete(ctx, incomplete)
        outlines: dict[str, Any] = {
            name: Command(name=name, help=text) for group in commands.groups.values() for name, text in group.items()
        }
        self.commands = outlines
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = commands

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands of a page of plain lines, each with the whole of its first sentence."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(limit=1000)) for name, one in commands if one])

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters and `--help`."""
        return [_plainly(one) for one in super().get_params(ctx)]


_OPTIONS = (
    ("-c, --config FILE", "The configuration; default: POLLER_CONFIG, or poller.toml"),
    ("--json", "Write JSON to stdout and nothing else"),
    ("--debug", "Show more, tracebacks included"),
    ("-h, --help", "Explain: poller COMMAND --help says all of one"),
)
_NAME = 21
"""Columns of a command's name, with the blanks behind it."""
_MORE = "--version  --install-completion  --show-completion"


def _page(groups: Mapping[str, Mapping[str, str]], about: str) -> str:
    """What there is on one screen: a line for each command."""
    width = shutil.get_terminal_size().columns
    lines = ["Usage: poller [OPTIONS] COMMAND [ARGS]...", "", about]
    for title, rows in (*((name, tuple(group.items())) for name, group in groups.items()), ("Options", _OPTIONS)):
        lines.append(coloured(title, "bold", sys.stdout))
        lines += [f"  {name:<{_NAME if width >= NARROW else len(name) + 2}}{text}" for name, text in rows]
    lines.append(f"  {_MORE}")
    return "\n".join(part for line in lines for part in wrapped(line, width, hang=_hang(line, width))) + "\n"


def _hang(line: str, width: int) -> int:
    """What goes on beneath it stands below what it says of a command, where there is room for that."""
    return (_NAME + 2 if width >= NARROW else 6) if line.startswith("  ") else 0


def new(**options: Any) -> typer.Typer:
    """An application or a group of commands, whose page fits the terminal."""
    width = shutil.get_terminal_size().columns
    if width < NARROW:
        options["rich_markup_mode"] = None
        options["context_settings"] = {**options.get("context_settings", {}), "terminal_width": max(20, width - 1)}
    return typer.Typer(cls=Group, **options)


def _plainly(parameter: Any) -> Any:
    """With its own metavar alone. How a type is shown is no public setting of every version of typer: where there is
    no such thing, nothing is changed."""
    if parameter.param_type_name == "argument" or getattr(parameter, "is_flag", False):
        parameter.display_type_rich = _nothing
    return parameter


def _nothing(ctx: Any = None) -> str:  # noqa: ARG001 - as it is called
    return ""
