"""What every command shares: `--config`, `--json`, `--debug`, accepted before the command and after it."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from poller_cli.help import EVERY_COMMAND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

    from poller.app import App
    from poller.observability import Observer
    from poller.ports import Runtime
    from poller_cli.terminal.progress import LiveProgress

DEFAULT_CONFIG = Path("poller.toml")
_NAMED = 10
"""The most pollers that are named if a name is missing."""
_owns_process = False


def own_process() -> None:
    """This process does nothing but this command: it was not called by a program."""
    global _owns_process
    _owns_process = True


def owns_process() -> bool:
    """True if `own_process` was called."""
    return _owns_process


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="The configuration file. [default: poller.toml]",
        rich_help_panel=EVERY_COMMAND,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", help="Write JSON to stdout and nothing else. The rest goes to stderr.", rich_help_panel=EVERY_COMMAND
    ),
]
DebugOption = Annotated[
    bool, typer.Option("--debug", help="Show more, tracebacks included.", rich_help_panel=EVERY_COMMAND)
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show all of it. The output of --json stays the same.")
]


@dataclass(frozen=True, slots=True)
class Session:
    """How this invocation was asked to behave.

    Attributes:
        runtime: time, threads and randomness; the real ones if None.
        words: the command, as it was typed; empty if none was.
    """

    config: Path = DEFAULT_CONFIG
    json: bool = False
    debug: bool = False
    runtime: Runtime | None = None
    words: str = ""

    def command(self, *words: str) -> str:
        """A command line to copy."""
        from poller.admin.request import command_line

        return command_line(str(self.config), *words)

    @property
    def plain(self) -> bool:
        """True if no person sees stderr move: a program reads it, or a file is written."""
        from poller_cli.terminal.layout import is_terminal

        return self.json or not is_terminal(sys.stderr) or os.environ.get("TERM") == "dumb"

    def progress(self) -> LiveProgress | None:
        """The lines of the pollers at work, if a person sees them."""
        if self.plain:
            return None
        from poller_cli.terminal.progress import LiveProgress

        return LiveProgress()

    def show(self, output: BaseModel, text: Callable[[], str], out: IO[str] | None = None) -> None:
        """Print a result on stdout, or on `out`: as JSON, or its `text` for people."""
        from poller_cli.terminal.printing import print_json

        if self.json:
            print_json(output, out)
        else:
            print(text())

    def app(self, observers: Sequence[Observer] = ()) -> App:
        """The configured application. Raises: ConfigError."""
        from poller.app import load_app

        return load_app(self.config, observers=observers, runtime=self.runtime)


def poller_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """For the shell's completion: pollers of the configuration file, read without its settings."""
    import glob
    import tomllib

    at: Any = ctx
    while at.parent is not None and not at.params.get("config"):  # -c may stand before the command and behind it
        at = at.parent
    path = Path(at.params.get("config") or DEFAULT_CONFIG)
    names: set[str] = set()
    with suppress(OSError, ValueError, AttributeError, TypeError):
        tree = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        names.update(tree.get("pollers", {}))
        for pattern in tree.get("include", []):
            for one in glob.glob(pattern, root_dir=path.parent, recursive=True):  # noqa: PTH207 - as the loader
                names.update(tomllib.loads((path.parent / one).read_text(encoding="utf-8-sig")).get("pollers", {}))
    return sorted(name for name in names if name.startswith(incomplete))


LogFormatOption = Annotated[
    Literal["text", "json"],
    typer.Option(
        metavar="text|json",
        help="How stderr is written. Lines for people, or a JSON object a line, with the span's ids.",
    ),
]


@dataclass(frozen=True, slots=True)
class OnlyPoller:
    """In a parameter's annotation: it may be left out, and is then the only poller of the configuration file.

    Attributes:
        option: what is written before the name.
    """

    option: str = ""

    def name(self, session: Session, words: str, rest: str, *, yes: bool) -> str:
        """The name, if the file has one poller and the operator can see which. Raises: ConfigError, WrongArgument.

        Args:
            words: the command. rest: what follows the name. yes: True if the operator is not asked.
        """
        from poller.admin.refusals import WrongArgument
        from poller.config import load_config

        names = list(load_config(session.config).pollers)
        step = f"{words} {self.option}{names[0]}{rest}"
        if len(names) > 1:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            raise WrongArgument(
                f"NAME is missing, and {session.config} has {len(names)} pollers: {', '.join(names[:_NAMED])}{more}.",
                next_step=f"Add one of them, such as: {step}",
            )
        if yes:
            raise WrongArgument(
                "NAME is missing; with --yes it must be given, so that nothing else is changed by mistake.",
                next_step=f"Add it: {step} --yes",
            )
        return names[0]


NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Which pollers; default: all.", autocompletion=poller_names),
]

NamedArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Which poller, or which backfill. [default: the only poller]", autocompletion=poller_names
    ),
    OnlyPoller(),
]
NamedArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME", help="Which pollers or backfills; default: all pollers.", autocompletion=poller_names
    ),
]


@dataclass(frozen=True, slots=True)
class MadeOf:
    """In a parameter's annotation: `kind` makes its value of these options, each with its default."""

    kind: Callable[..., Any]
    options: Mapping[str, tuple[Any, Any]]


def _parameter(name: str, hint: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)


def _parameters(options: Mapping[str, tuple[Any, Any]]) -> Iterator[inspect.Parameter]:
    return (_parameter(name, hint, default) for name, (hint, default) in options.items())


def _others(made: Any) -> str:
    """The other arguments that a command must have, as they follow its NAME."""
    return "".join(f" {one.metavar}" for one in made.params if one.param_type_name == "argument" and one.required)


def page_of(function: Callable[..., int]) -> str:
    """What a command's page says of it. Its lines break where the terminal ends, not where the source's do."""
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(one.split()) for one in paragraphs)


def command(function: Callable[..., int]) -> Callable[..., int]:
    """Make a typer command of a function `(session, ...) -> exit code`, with the shared options added to its own."""
    hints = get_type_hints(function, include_extras=True)
    own: list[inspect.Parameter] = []
    composed: dict[str, MadeOf] = {}
    left_out: dict[str, OnlyPoller] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        of = next(
            (one for one in getattr(hints[name], "__metadata__", ()) if isinstance(one, MadeOf | OnlyPoller)), None
        )
        if isinstance(of, MadeOf):
            composed[name] = of
            own += _parameters(of.options)
        elif of is not None:
            left_out[name] = of
            own.append(_parameter(name, hints[name], None))
        elif name != "session":
            own.append(_parameter(name, hints[name], parameter.default))
    shared = {"config": (ConfigOption, None), "as_json": (JsonOption, False), "debug": (DebugOption, False)}

    @wraps(function)
    def wrapper(*, context: typer.Context, config: Path | None, as_json: bool, debug: bool, **arguments: Any) -> int:
        session = context.find_object(Session) or Session()
        session = replace(
            session,
            config=config or session.config,
            json=as_json or session.json,
            debug=debug or session.debug,
            words=context.command_path.partition(" ")[2],
        )
        from poller_cli.terminal.printing import complain, copy_with

        by_default = session.config == Path(os.environ.get("POLLER_CONFIG") or DEFAULT_CONFIG)
        if not by_default:
            copy_with("-c", str(session.config))
        if session.json or function.__name__ != "run":
            sys.stdout.flush()  # one that is closed is an error before anything is done
        yes = bool(arguments.get("yes")) and arguments.get("confirm") is None
        for name, of in composed.items():
            arguments[name] = of.kind(**{option: arguments.pop(option) for option in of.options})
        for name, only in left_out.items():
            if arguments[name] is None:
                arguments[name] = only.name(session, context.command_path, _others(context.command), yes=yes)
        try:
            return function(session, **arguments)
        except KeyboardInterrupt:  # here: click would end with an exit code of its own, and say nothing
            from poller_cli import exits

            complain("Interrupted.")
            return exits.FAILED

    wrapper.__doc__ = page_of(function)
    parameters = [_parameter("context", typer.Context), *own, *_parameters(shared)]
    wrapper.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": int}
    return wrapper
