"""The entry point of the command `poller`: wires the commands, and turns errors into one line and an exit code.

Every command stands in a file of its own under `poller_cli.commands` and imports what it needs when it runs, so that
`poller --help` and the shell's completion are quick.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from poller_cli import exits
from poller_cli.commands import (
    backfill,
    cancel,
    check,
    clone_checkpoint,
    demo,
    export_checkpoint,
    history,
    import_,
    init,
    pause,
    peek,
    quarantine,
    rebind,
    recheck,
    reset_to_beginning,
    reset_to_checkpoint,
    reset_to_cursor,
    resume,
    run,
    schema,
    sink,
    status,
    watch,
)
from poller_cli.session import DEFAULT_CONFIG, DebugOption, JsonOption, Session, command
from poller_cli.terminal.help_pages import Command, new
from poller_cli.terminal.printing import complain, fault_of_stdout, fix_streams, show_trace

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
    """Turn a SQL table into a trigger: look at pollers, run them, move their checkpoints.

    Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 refused, 4 the checkpoint belongs to another source.
    """
    ctx.obj = Session(config=config, json=as_json, debug=debug)
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
    return exits.DONE


def build() -> typer.Typer:
    """The whole command."""

    def add(group: typer.Typer, name: str, function: Callable[..., int]) -> None:
        group.command(name, cls=Command)(command(function))

    app = new(
        name="poller",
        invoke_without_command=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    add(app, "run", run.run)
    add(app, "status", status.status)
    add(app, "watch", watch.watch)
    add(app, "check", check.check)
    add(app, "peek", peek.peek)
    add(app, "history", history.history)
    add(app, "pause", pause.pause)
    add(app, "cancel", cancel.cancel)
    add(app, "resume", resume.resume)
    add(app, "reset-to-beginning", reset_to_beginning.reset_to_beginning)
    add(app, "reset-to-cursor", reset_to_cursor.reset_to_cursor)
    add(app, "reset-to-checkpoint", reset_to_checkpoint.reset_to_checkpoint)
    add(app, "clone-checkpoint", clone_checkpoint.clone_checkpoint)
    add(app, "export-checkpoint", export_checkpoint.export_checkpoint)
    add(app, "recheck", recheck.recheck)
    add(app, "rebind", rebind.rebind)
    add(app, "backfill", backfill.backfill)
    add(app, "init", init.init)
    add(app, "demo", demo.demo)
    for group, about, name, function in (
        ("import", "Continue from another library's checkpoint.", "azure-functions-db", import_.azure_functions_db),
        ("schema", "JSON Schemas of everything that poller reads and writes.", "export", schema.export),
        ("sink", "Targets to which each row is applied once.", "ddl", sink.ddl),
    ):
        inner = new(no_args_is_help=False, help=about)
        add(inner, name, function)
        inner.callback()(lambda: None)  # a group of one command is still a group: `poller schema export`
        app.add_typer(inner, name=group)
    waiting = new(no_args_is_help=False, help="Rows that failed and wait: look at them, and say what becomes of them.")
    add(waiting, "list", quarantine.list_)
    add(waiting, "show", quarantine.show)
    add(waiting, "replay", quarantine.replay)
    add(waiting, "discard", quarantine.discard)
    add(waiting, "add", quarantine.add)
    app.add_typer(waiting, name="quarantine")
    return app


def main(arguments: list[str] | None = None) -> None:
    """Run the command and leave the process with its exit code."""
    fix_streams()
    sys.exit(execute(sys.argv[1:] if arguments is None else arguments))


def execute(arguments: list[str]) -> int:
    """Run the command; every error becomes one line on stderr, and a traceback only with `--debug`."""
    try:
        code = build()(arguments, prog_name="poller", standalone_mode=False)
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
        complain(f"{error.format_message().rstrip('. ')}. See: {page} --help")  # type: ignore[attr-defined]
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
