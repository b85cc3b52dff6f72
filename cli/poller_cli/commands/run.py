"""`poller run`: deliver rows to the configured handlers, once, until idle, or for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poller_cli import exits
from poller_cli.session import LogFormatOption, NamesArgument, Session, owns_process

if TYPE_CHECKING:
    from poller.app import App
    from poller.observability import Observer
    from poller.poller import Poller
    from poller.tick.result import TickResult
    from poller.worker import Ended, Mode, Replicas
    from poller_cli.output.events import EventPrinter


def run(
    session: Session,
    names: NamesArgument = None,
    once: Annotated[bool, typer.Option("--once", help="One tick of each poller, then exit.")] = False,
    until_idle: Annotated[
        bool,
        typer.Option(
            "--until-idle",
            help="Until no row is left, then exit. It waits for the next call after one that failed, and not for rows "
            "that are set aside: the last line says how many there are.",
        ),
    ] = False,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="[HOST:]PORT",
            help="Also answer GET /api/health and others there. A port alone is of this machine only. Another address "
            "needs a token, in POLLER_HTTP_TOKEN or a file.",
        ),
    ] = None,
    http_token_file: Annotated[
        Path | None,
        typer.Option(
            "--http-token-file", metavar="FILE", help="Holds the token for it. Only its owner may read it (0600)."
        ),
    ] = None,
    http_changes_key_file: Annotated[
        Path | None,
        typer.Option(
            "--http-changes-key-file",
            metavar="FILE",
            help="Holds the key for changes over HTTP. Without one they are not offered. Only its owner may read it "
            "(0600). Or set POLLER_HTTP_CHANGES_KEY.",
        ),
    ] = None,
    max_concurrent: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            metavar="N",
            help="The most ticks at once. At most half of them are for one database server. "
            "[default: run.max_concurrent]",
        ),
    ] = None,
    alive_file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Touch it every 5 s while it works, for a probe."),
    ] = None,
    log_format: LogFormatOption = "text",
) -> int:
    """Deliver rows to the handlers: for ever, on each poller's schedule, unless an option says otherwise. SIGTERM or
    Ctrl-C finishes and commits the batch in hand.

    Example: poller run orders --until-idle

    Several processes may run the same pollers: leases decide who works. SIGHUP ends it as SIGTERM does; a second
    SIGTERM or Ctrl-C, half a second later or more, abandons the batch in hand.
    """
    from poller import worker
    from poller.runtime import collect_less
    from poller.worker.exporting import exported
    from poller_cli.output.events import EventPrinter
    from poller_cli.output.log import log_to_stderr
    from poller_cli.terminal.printing import claim_stdout, do_without_stdout, form_of_signals

    if once and until_idle:
        raise typer.BadParameter("--once and --until-idle exclude each other.")
    mode: Mode = "once" if once else "until_idle" if until_idle else "forever"
    if not session.json:
        do_without_stdout()
    stop = threading.Event()
    printer = EventPrinter(
        json_lines=claim_stdout() if session.json else None,
        debug=session.debug,
        quiet_errors=mode != "forever",
        stop=stop,
        json_log=log_format == "json",
    )
    log_to_stderr(debug=session.debug, as_json=log_format == "json")
    in_hand = worker.BatchesInHand()
    progress = None if log_format == "json" else session.progress()
    observers: list[Observer] = [in_hand, printer] if progress is None else [in_hand, printer, progress]
    signals = worker.stopped_by_signals(stop, in_hand, exit_code=exits.FAILED, form=form_of_signals())
    with (
        signals,
        session.app(observers=observers) as app,
        exported(app.config, app.path),
        _served(app, http, http_token_file, http_changes_key_file),
        progress or nullcontext(),
    ):
        pollers, codes = _wired(session, app, names, printer)
        printer.expect(len(pollers))
        if progress is not None:
            progress.show_times(app.config)
        before = None if progress is None else progress.count_pending
        if owns_process():
            collect_less()
        ends = worker.run(
            pollers,
            mode,
            stop,
            before=before,
            ended=partial(_explain, session, mode),
            max_concurrent=max_concurrent or app.config.run.max_concurrent,
            slice=app.config.run.slice,
            replicas=_replicas(app, observers) if pollers else None,
            alive=None if alive_file is None else worker.AliveFile(alive_file, app.runtime),
            hourly=app.prunes([poller.name for poller in pollers]),
        )
    printer.finish()
    if printer.output_closed:
        codes.append(exits.FAILED)
    return exits.worst([*codes, *map(exits.of_end, ends)])


def _replicas(app: App, observers: list[Observer]) -> Replicas:
    """The other processes that run these pollers, and those of another configuration."""
    from poller.journal.configurations import Configurations
    from poller.worker import Replicas

    beside = Configurations(app.store, app.config, app.runtime)
    return Replicas(app.store, app.app_name, runtime=app.runtime, configurations=beside, observers=observers)


def _wired(
    session: Session, app: App, names: list[str] | None, printer: EventPrinter
) -> tuple[list[Poller], list[int]]:
    """The pollers of these names, and the exit codes of those that cannot be made, which keep no other from working."""
    from poller.errors import PollerError
    from poller.worker import tick_failed
    from poller_cli.terminal.printing import complain

    pollers, codes = [], []
    for name in app.chosen(names):
        try:
            pollers.append(app.poller(name))
        except PollerError as error:
            if session.json:
                printer(tick_failed(name, app.runtime.utcnow(), error))
            complain(str(error))
            codes.append(error.exit_code)
    return pollers, codes


def _explain(session: Session, mode: Mode, end: Ended[Poller]) -> None:
    """Say why a poller ended, if it did not end well, and what to do; the others may go on for days. One that has
    delivered all rows says how many it left aside."""
    from poller_cli.terminal.printing import complain, of_poller, show_trace

    name, result = end.poller.name, end.result
    if end.error is not None:
        first = _BEFORE_RESUME.get(end.outcome or "")
        step = f". {first}: {session.command('resume', name)}" if first else ""
        if result is not None and result.outcome == "handler_failed" and result.next_command:
            step = f". {_what_to_do(result.next_command)}: {session.command(*result.next_command)}"
        complain(of_poller(name, end.error.rstrip(".") + step if step else end.error))
    elif mode == "until_idle" and result is not None and (left := _left_behind(result)):
        complain(of_poller(name, f"{left}. Look at them: {session.command('quarantine', 'list', name)}"))
    if end.trace is not None and session.debug:
        show_trace(end.trace)


_BEFORE_RESUME = {"halted": "Fix it, then", "paused": "To go on"}
"""What comes before the command that resumes a poller of this state."""


def _what_to_do(words: Sequence[str]) -> str:
    """What comes before a command that a tick's result names."""
    if words[1] == "list":
        return "Look at them"
    return "If every row fails, wait; else fix it, or set the row aside"


def _left_behind(result: TickResult) -> str:
    """The rows that wait although none is left to deliver; empty if none does."""
    from poller.admin.counts import rows

    said = [f"{rows(result.aside)} set aside, tried again automatically"] if result.aside else []
    if result.quarantined:
        said.append(f"{rows(result.quarantined)} for a person to look at")
    return "; ".join(said)


@contextmanager
def _served(app: App, address: str | None, token_file: Path | None, changes_key_file: Path | None) -> Iterator[None]:
    """Serve the HTTP endpoints, if an address is given, until the workers have ended."""
    if address is None:
        if token_file is not None:
            raise typer.BadParameter("--http-token-file goes with --http.")
        if changes_key_file is not None:
            raise typer.BadParameter("--http-changes-key-file goes with --http.")
        yield
        return
    from poller.http import serve
    from poller_cli.terminal.printing import notice

    with serve(app, address, token_file=token_file, changes_key_file=changes_key_file) as server:
        notice(f"Health is answered at {server.url}, the dashboard is {server.dashboard_url}")
        yield
