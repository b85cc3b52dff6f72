"""The entry point of the command `poller`: wires the commands, and turns errors into one line and an exit code.

Every command has a file of its own under `poller_cli.commands`, which is imported when the command is asked for,
and itself imports what it needs when it runs: `poller --help` and the shell's completion are quick.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poller_cli import exits
from poller_cli.help import CHANGES, EXAMPLE, Command, Commands, explained, new
from poller_cli.session import DEFAULT_CONFIG, DebugOption, JsonOption, Session, command, own_process, poller_names
from poller_cli.terminal.printing import complain, copy_with, fault_of_stdout, fix_streams, folded, say_as, show_trace

if TYPE_CHECKING:
    from poller.ports import Runtime

PAGE: dict[str, dict[str, str]] = {
    "Look": {
        "status, watch": "Whether each poller works or is behind; or live",
        "health": "Whether all is well, worst first: for alerts",
        "check": "Diagnose storage, source and configuration",
        "peek": "The rows that would be delivered next",
        "history": "Who changed or took over what, when and why",
        "dashboard": "The status page, in a browser",
    },
    "Change": {
        "pause, resume": "Let no new batch start; end a pause or a halt",
        "cancel": "Stop the handler that runs now, and pause",
        "reset": "Go on elsewhere: beginning, a row, a backup",
        "undo": "Take back the newest change, or another one",
        "checkpoint": "Export it, clone it, import another library's",
        "rebind": "Accept a changed source, keeping the cursor",
        "quarantine": "Rows that failed and wait: list, replay, discard",
    },
    "Work": {
        "run, dispatch": "Deliver rows to the handlers; send work messages",
        "backfill": "Deliver a range of rows, beside the live poller",
        "recheck": "Find rows that were passed and never delivered",
        "capture, prune": "Record each change, deletes too; delete old ones",
    },
    "Set up": {
        "init, demo": "Write poller.toml for a table; see it work",
        "schema, sink": "JSON Schemas; the tables of a target",
    },
}
"""What `poller --help` says of the commands, in groups. The function, and its module in `poller_cli.commands`, have the
command's name."""
_HELP = "help"
_RESETS = ("reset-to-beginning", "reset-to-cursor", "reset-to-checkpoint")
"""Parts of `reset` under names of their own."""
_EARLIER = {
    "export-checkpoint": ("checkpoint", "export"),
    "clone-checkpoint": ("checkpoint", "clone"),
    "import": ("checkpoint", "import"),
}
"""Earlier names of commands and groups, which are still taken, with the words that they have now."""
_GROUPS: dict[str, dict[str, Any]] = {
    "checkpoint": {"export": "checkpoint", "clone": "checkpoint", "import": {"azure-functions-db": "import_"}},
    "schema": {"export": "schema"},
    "sink": {"ddl": "sink"},
    "quarantine": dict.fromkeys(("list", "show", "replay", "discard", "add"), "quarantine"),
}
"""The modules of each group's commands, or the group that is in it. A function has its command's name, or that and a
`_`."""
_ABOUT = {
    "checkpoint": "Keep a checkpoint, or bring it to another place.",
    "checkpoint import": "Continue from another library's checkpoint.",
    "schema": "JSON Schemas of everything that poller reads and writes.",
    "sink": "Targets to which each row is applied once.",
    "quarantine": "List, show, replay or discard rows that failed. Without a subcommand it lists them.",
}
"""What the page of each group says."""
_BARE = {"quarantine": "list", "checkpoint": None}
"""Which of its commands a group runs if none is named; None: it shows its page."""

_UsageProblem = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""What typer raises for a wrong command line; it has no public name in every version."""


def _version(asked: bool) -> None:
    if asked:
        from poller import __version__

        print(f"poller {__version__}")
        raise typer.Exit


def _root(
    ctx: typer.Context,
    config: Annotated[
        Path,
        typer.Option("--config", "-c", metavar="FILE", envvar="POLLER_CONFIG", help="The configuration file."),
    ] = DEFAULT_CONFIG,
    as_json: JsonOption = False,
    debug: DebugOption = False,
    version: Annotated[  # noqa: ARG001 - handled by its callback
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> int:
    """Turn a SQL table into a trigger: new and changed rows reach a handler, in order."""
    ctx.obj = replace(ctx.obj or Session(), config=config, json=as_json, debug=debug)
    if ctx.invoked_subcommand is not None:
        return exits.DONE
    if config.is_file():
        return _instead(ctx, "status")
    first = f"There is no {config} here. To write one: poller init; to see it work: poller demo. All commands:"
    print(f"{folded(first, hang=0, stream=sys.stdout)}\n")
    print(ctx.get_help())
    return exits.DONE


def build() -> Any:
    """The whole command, each of whose commands is made when it is first asked for."""
    app = new(
        name="poller",
        invoke_without_command=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    root: Any = typer.main.get_command(app)
    root.commands = Commands(PAGE, make=_made, hidden=[*_RESETS, *_EARLIER, _HELP])
    return root


def _topics(incomplete: str) -> list[str]:
    return [name for name in (*build().commands, CHANGES) if name.startswith(incomplete)]


def _help(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help=f"Which command; or {CHANGES}.", autocompletion=_topics),
    ] = None,
) -> int:
    """Explain a command, as its --help does. `poller help changes` explains what every change takes.

    Example: poller help reset-to-cursor
    """
    print(explained(ctx.find_root(), words or []), end="")
    return exits.DONE


def _function(module: str, name: str) -> Any:
    home = import_module(f"poller_cli.commands.{module}")
    return getattr(home, name, None) or getattr(home, f"{name}_")


def _made(name: str) -> Any:
    path = _EARLIER.get(name, (name,))
    found: Any = _GROUPS
    for word in path:
        found = found.get(word, "reset" if word in _RESETS else word.replace("-", "_"))
    if not isinstance(found, str):
        group: Any = typer.main.get_command(_group(path, found, name))
        group.bare, group.names = _BARE.get(name), poller_names
        return group
    app = new(add_completion=False, pretty_exceptions_enable=False)
    if name == _HELP:
        app.command(_HELP, cls=Command)(_help)
    else:
        _add(app, path, found, name)
    return typer.main.get_command(app)


def _group(path: tuple[str, ...], members: dict[str, Any], typed: str) -> typer.Typer:
    """The group that has the words `path`, and is called by those that are `typed`."""
    now = " ".join(path)
    about = _ABOUT[now] if now == typed else _same(now)
    app = new(no_args_is_help=False, add_completion=False, pretty_exceptions_enable=False, help=about)
    app.callback(invoke_without_command=now in _BARE)(_called(_BARE.get(now)))
    for member, found in members.items():
        words = (*path, member)
        if isinstance(found, str):
            _add(app, words, found, f"{typed} {member}")
        else:
            app.add_typer(_group(words, found, f"{typed} {member}"), name=member)
    return app


def _add(app: typer.Typer, path: tuple[str, ...], module: str, typed: str) -> None:
    """Add the command that has the words `path`, and is called by those that are `typed`."""
    made, now = command(_function(module, path[-1].replace("-", "_"))), " ".join(path)
    about = made.__doc__ or ""
    if typed != now:
        example = next(one for one in about.split("\n\n") if one.startswith(EXAMPLE))
        about = f"{_same(now)}\n\n{example.replace(f'poller {now} ', f'poller {typed} ')}"
    app.command(typed.rpartition(" ")[2], cls=Command, help=about)(made)


def _same(now: str) -> str:
    """What is said of an earlier name."""
    return f"The same as poller {now}, by its earlier name."


def _called(member: str | None) -> Callable[..., int | None]:
    """What a group does before its command, or without one: a group of one command, as `poller schema export`, is a
    group by this too."""

    def called(ctx: typer.Context) -> int | None:
        if ctx.invoked_subcommand is not None:
            return None
        if member is not None:
            return _instead(ctx, member)
        print(ctx.get_help())
        return exits.DONE

    return called


def _instead(ctx: typer.Context, name: str) -> int:
    """Run a member of a group whose own words were typed alone."""
    made: Any = ctx.command.get_command(ctx, name)  # type: ignore[attr-defined]
    with made.make_context(name, [], parent=ctx) as inner:
        code: int = made.invoke(inner)
    return code


def main(arguments: list[str] | None = None) -> None:
    """Run the command and leave the process with its exit code."""
    fix_streams()
    own_process()
    sys.exit(execute(sys.argv[1:] if arguments is None else arguments))


def execute(arguments: list[str], *, runtime: Runtime | None = None) -> int:
    """Run the command; every error becomes one line on stderr, and a traceback only with `--debug`. `runtime`: its
    time, threads and randomness; the real ones if None."""
    say_as(None)
    copy_with()
    try:
        code = build()(arguments, prog_name="poller", standalone_mode=False, obj=Session(runtime=runtime))
        sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - the one place that turns errors into exit codes
        if "--debug" in arguments:
            show_trace(error)
        return _explained(error)
    except KeyboardInterrupt:
        complain("Interrupted.")
        return exits.FAILED
    return code if isinstance(code, int) else exits.DONE


def _explained(error: Exception) -> int:
    from poller.errors import PollerError

    if isinstance(error, PollerError):
        complain(str(error))
        return error.exit_code
    if isinstance(error, _UsageProblem):
        context = getattr(error, "ctx", None)
        page = "poller" if context is None else context.command_path
        said: str = error.format_message().rstrip(". ")  # type: ignore[attr-defined]
        complain(f"{said}{'' if said.endswith('?') else '.'} See: {page} --help")
        return exits.USAGE
    if isinstance(error, typer.Abort):
        complain("Not confirmed; nothing was changed.")
        return exits.REFUSED
    if isinstance(error, BrokenPipeError):
        sys.stdout = None  # its reader has gone; flushing at exit would fail again
        return exits.FAILED
    if (why := fault_of_stdout(error)) is not None:
        complain(f"The output could not be written to stdout: {why}.")
        return exits.FAILED
    complain(f"{type(error).__name__}: {error}. This is a fault in poller; --debug shows where.")
    return exits.FAILED


if __name__ == "__main__":
    main()
