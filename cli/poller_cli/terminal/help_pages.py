"""What `--help` shows: no value where an option takes none, no Python types, and nothing cut on a narrow terminal."""

from __future__ import annotations

import shutil
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

NARROW = 70
"""Below so many columns the tables of the pages would cut words off: they are then written as plain lines."""


class Command(TyperCommand):
    """A command whose page is as this module says."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters and `--help`."""
        return [_plainly(one) for one in super().get_params(ctx)]


class Group(TyperGroup):
    """A group whose page is as this module says."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands of a page of plain lines, each with the whole of its first sentence."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(limit=1000)) for name, one in commands if one])

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters and `--help`."""
        return [_plainly(one) for one in super().get_params(ctx)]


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
