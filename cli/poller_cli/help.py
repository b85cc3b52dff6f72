"""What `--help` and `poller help` print: two columns of plain text, at most 24 lines of 80 columns.

A page shows a command's docstring up to its example, and the first sentence of each option. The rest is for
`docs/cli.md` and the manual page. What all changes take is explained once.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections import UserDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from poller_cli.terminal.layout import wrapped
from poller_cli.terminal.printing import coloured

EVERY_COMMAND = "Options of every command"
EVERY_CHANGE = "Options of every change"
"""The panels of the options that many commands take; an option without a panel is a command's own."""
CHANGES = "changes"
"""The topic of `poller help` that explains the options of every change."""
_ABOUT_CHANGES = (
    "A command that changes a poller shows before and after, and how many rows will be delivered again or never. Then "
    "it asks on a terminal; without one it needs --yes, and with --yes the NAME of the poller. A command that moves a "
    "checkpoint asks for the name; in production --yes needs --reason too."
)
_FOOT = {
    "Options": "-c, --config FILE, --json, --debug, --version, -h, --help",
    "More": f"poller help COMMAND; options of every change: poller help {CHANGES}",
}
"""The last lines of the program's page."""
_LONGEST = 24
"""The most columns of the names in the first column of the program's page; a line with longer names has its own."""
EXAMPLE = "Example: "
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
"""The form of a poller's name."""
_UsageError: Any = typer.BadParameter.__mro__[1]
"""What typer raises for a wrong command line that is of no parameter; it has no public name."""


class Commands(UserDict[str, Any]):
    """The commands of the program by name; each is made when it is first asked for.

    Args:
        groups: by title, what the program's page says of each command; several names of one line are joined by `, `.
        hidden: the names that no line has. make: makes a command by its name.
    """

    def __init__(
        self, groups: Mapping[str, Mapping[str, str]], *, make: Callable[[str], Any], hidden: Iterable[str] = ()
    ) -> None:
        super().__init__()
        self.groups = groups
        self.about = {name: text for group in groups.values() for line, text in group.items() for name in _names(line)}
        self.data = dict.fromkeys((*self.about, *hidden))
        self._make = make

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = self._make(name)
        return self.data[name]


def _names(line: str) -> list[str]:
    return line.split(", ")


class Command(TyperCommand):
    """A command whose page is plain text, and whose NAME may be left out before another argument."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page."""
        formatter.write(page(self, ctx.command_path))

    def make_parser(self, ctx: Any) -> Any:
        """The parser of its command line."""
        parser: Any = super().make_parser(ctx)
        arguments = [one for one in self.params if one.param_type_name == "argument"]
        if len(arguments) == 2 and not arguments[0].required and not ctx.resilient_parsing:
            parse, (first, last) = parser.parse_args, arguments

            def parse_args(args: list[str]) -> Any:
                values, rest, order = parse(args=args)
                word = values[first.name]
                if isinstance(word, str) and not values[last.name] and (last.required or not _NAME.fullmatch(word)):
                    values |= {first.name: None, last.name: word}
                return values, rest, order

            parser.parse_args = parse_args
        return parser


class Group(TyperGroup):
    """A group of commands whose page is plain text.

    Attributes:
        bare: the command that is run if none is named, and of a poller if only that is named.
        names: the pollers of the configuration that begin with a text.
    """

    bare: str | None = None
    names: Callable[[Any, str], list[str]] | None = None

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as it is called
        """The names, in order; makes none of the commands."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page."""
        formatter.write(page(self, ctx.command_path))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of that name. Raises: the error of a wrong command line, with what was probably meant."""
        word = args[0] if args else ""
        if args and not word.startswith("-") and self.get_command(ctx, word) is None:
            if self.bare is not None and self.names is not None and word in self.names(ctx, word):
                return super().resolve_command(ctx, [self.bare, *args])
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
        outlines: dict[str, Any] = {name: Command(name=name, help=commands.about.get(name)) for name in commands}
        self.commands = outlines
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = commands


def new(**options: Any) -> typer.Typer:
    """An application or a group of commands with plain pages."""
    return typer.Typer(cls=Group, rich_markup_mode=None, **options)


# --- pages ------------------------------------------------------------------------------------------------------------


def explained(ctx: Any, words: Sequence[str]) -> str:
    """The page that `poller help` shows of these words. Raises: the error of a wrong command line.

    Args:
        ctx: the program's context.
    """
    command, path = ctx.command, ctx.command_path
    if list(words) == [CHANGES]:
        return _changes_page(command.commands["reset-to-cursor"].params)
    for word in words:
        if not isinstance(command, Group):
            raise _UsageError(f"{path} has no command {word!r}.", ctx=ctx)
        command, path = command.resolve_command(ctx, [word])[1], f"{path} {word}"
    return page(command, path)


def page(command: Any, path: str) -> str:
    """The page of a command that is called by the words `path`."""
    if isinstance(command, TyperGroup):
        groups = getattr(command.commands, "groups", None)
        return _group_page(command, path) if groups is None else _program_page(command, groups)
    own, of_changes, shared = options(command)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    short, example, long = said(command)
    rows = [[(term(one), meaning(one)) for one in some] for some in ((*arguments, *own), shared)]
    names = ", ".join(one.opts[0] for one in of_changes)
    return _text(
        [
            _folded(f"Usage: {usage(command, path)}", 7),
            *map(_folded, short),
            _table(rows[0], rows),
            _folded(f"See poller help {CHANGES}: {names}", 2) if names else [],
            _table(rows[1], rows),
            [*_folded(EXAMPLE + example, 2), *([f"More: man {path.replace(' ', '-')}"] if long else [])],
        ]
    )


def _text(parts: Iterable[Sequence[str]]) -> str:
    """Parts with an empty line between two of them."""
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _folded(text: str, hang: int = 0) -> list[str]:
    return wrapped(text, shutil.get_terminal_size().columns, hang=hang)


def _table(rows: Sequence[tuple[str, str]], beside: Iterable[Sequence[tuple[str, str]]] = ()) -> list[str]:
    """Terms and what they mean, in the columns of all rows `beside`. The meaning is below its term if the terms take
    more than half of the width."""
    width = shutil.get_terminal_size().columns
    longest = max((len(one) for some in (rows, *beside) for one, _ in some), default=0)
    if longest > width // 2:
        return [line for one, text in rows for line in (f"  {one}", *wrapped(f"      {text}", width, hang=6))]
    return [line for one, text in rows for line in wrapped(f"  {one:<{longest}}  {text}", width, hang=longest + 4)]


def _group_page(command: Any, path: str) -> str:
    rows = [(name, _first_sentence(said(one)[0][0])) for name, one in command.commands.items()]
    return _text([_folded(f"Usage: {path} COMMAND ...", 7), _folded(command.help or ""), _table(rows)])


def _program_page(command: Any, groups: Mapping[str, Mapping[str, str]]) -> str:
    """A line for each command, or for a few that belong together, with the group's title before the first; above it on
    a narrow terminal."""
    width, left = shutil.get_terminal_size().columns, max(map(len, (*groups, *_FOOT))) + 2
    longest = max(len(line) for group in groups.values() for line in group if len(line) <= _LONGEST)
    lines = [*_folded("Usage: poller [OPTIONS] COMMAND [ARGUMENTS]", 7), *_folded(command.help or ""), ""]
    narrow = left + longest > width // 2
    for title, group in groups.items():
        shown = coloured(title, "bold", sys.stdout)
        if narrow:
            lines.append(shown)
            lines += [part for line, text in group.items() for part in wrapped(f"  {line}  {text}", width, hang=6)]
            continue
        rows = [f"{' ' * left}{line:<{longest}}  {text}" for line, text in group.items()]
        first, *others = [part for row in rows for part in wrapped(row, width, hang=left + longest + 2)]
        lines += [shown + first[len(title) :], *others]
    for title, text in _FOOT.items():
        lines += wrapped(f"{title:<{left}}{text}", width, hang=left)
    return "\n".join(lines) + "\n"


def _changes_page(params: Iterable[Any]) -> str:
    rows = [(term(one), meaning(one)) for one in params if one.rich_help_panel == EVERY_CHANGE and not one.hidden]
    return _text([[f"{EVERY_CHANGE}."], _folded(_ABOUT_CHANGES), _table(rows)])


# --- their parts ------------------------------------------------------------------------------------------------------


def options(command: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """A command's own options, those of every change, and those of every command, without hidden ones."""
    shown = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    own, of_changes, shared = (
        [one for one in shown if one.rich_help_panel == panel] for panel in (None, EVERY_CHANGE, EVERY_COMMAND)
    )
    return own, of_changes, shared


def said(command: Any) -> tuple[list[str], str, list[str]]:
    """What a command's docstring says: the paragraphs of its page, its example, and the paragraphs of its manual."""
    paragraphs = [" ".join(one.split()) for one in re.split(r"\n\s*\n", command.help or "")]
    at = next((n for n, one in enumerate(paragraphs) if one.startswith(EXAMPLE)), len(paragraphs))
    return paragraphs[:at], "".join(paragraphs[at : at + 1]).removeprefix(EXAMPLE), paragraphs[at + 1 :]


def usage(command: Any, path: str) -> str:
    """How a command is called."""
    arguments = [metavar(one) for one in command.params if one.param_type_name == "argument"]
    own, of_changes, shared = options(command)
    required = [f"{one.opts[0]} {metavar(one)}" for one in own if one.required]
    return " ".join([path, *arguments, *required, *["[OPTIONS]"] * bool(own or of_changes or shared)])


def metavar(param: Any) -> str:
    """How an argument or the value of an option is written."""
    name = str(param.metavar or param.name.upper())
    if param.param_type_name != "argument":
        return name
    return (name if param.required else f"[{name}]") + ("..." if param.nargs == -1 else "")


def term(param: Any) -> str:
    """How an argument or an option is written in the first column."""
    if param.param_type_name == "argument":
        return str(param.metavar)
    names = ", ".join(sorted(param.opts, key=len))
    return names if param.is_flag else f"{names} {metavar(param)}"


def meaning(param: Any) -> str:
    """What an argument or an option means: its first sentence, and its default."""
    text = param.help or ""
    given = re.search(r" ?\[default: ([^\]]+)\]", text)
    default = given[1] if given else "" if param.show_default is False else param.default
    known = default not in (None, False, "", ()) and not param.required
    return _first_sentence(text.replace(given[0], "") if given else text) + (f" (default: {default})" if known else "")


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.]) (?=[A-Z-])", text)[0].rstrip(".")
