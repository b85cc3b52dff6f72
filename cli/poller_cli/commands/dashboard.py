"""`poller dashboard`: the status page, served to a browser on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from poller_cli import exits
from poller_cli.session import Session

if TYPE_CHECKING:
    from poller.app import App
    from poller.http import HttpServer

PORT = 8765
"""Where it is served unless an option says otherwise; where that is taken, at any free port."""


def dashboard(
    session: Session,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            metavar="N",
            help="The port to serve it at, 0 for any free one. [default: 8765, else any free one]",
            show_default=False,
        ),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> int:
    """Show the status page in a browser: all pollers, the worst first, and what each of them did in the last hours.

    It runs no poller, and only this machine reaches the page. It ends at Ctrl-C or SIGTERM.

    Example: poller dashboard --no-browser

    The browser is opened if there is a terminal. If POLLER_HTTP_TOKEN is set, the page asks for that token. Pause and
    resume, and replay or discard of a row, need the key for changes: POLLER_HTTP_CHANGES_KEY, else a new one that the
    terminal shows; without a terminal none are offered. A replay runs the handler in this process. --json writes one
    line with the address.
    """
    from poller_cli.output.log import log_to_stderr
    from poller_cli.output.models import DashboardOutput
    from poller_cli.terminal.layout import is_terminal
    from poller_cli.terminal.printing import print_json
    from poller_cli.terminal.signals import stopped

    log_to_stderr(debug=session.debug)
    key = _new_key() if is_terminal(sys.stdout) and not session.json else None
    with session.app() as app, stopped() as stop, _served(app, port, key) as server:
        if session.json:
            print_json(DashboardOutput(url=server.dashboard_url), indent=None)
        else:
            print(f"The status page: {server.dashboard_url}", flush=True)
            if key is not None:
                print(f"The key for changes, until this ends: {key}", flush=True)
            if not no_browser and not session.plain:
                _open(server.dashboard_url)
        while not stop.wait(1.0):  # in pieces: on Windows a wait without end is not ended by Ctrl-C
            pass
    return exits.DONE


def _new_key() -> str | None:
    """For changes, unless the setting gives one."""
    from poller.http.keys import CHANGES_KEY, new_changes_key

    return None if CHANGES_KEY in os.environ else new_changes_key()


@contextmanager
def _served(app: App, port: int | None, changes_key: str | None) -> Iterator[HttpServer]:
    """Raises: ConfigError, where nothing can listen there."""
    from poller.errors import ConfigError
    from poller.http import serve

    if port is None:
        port = PORT if _free(PORT) else 0
    with ExitStack() as stack:
        try:
            server = stack.enter_context(serve(app, str(port), changes_key=changes_key))
        except ConfigError as error:
            if error.key != "--http":
                raise
            raise ConfigError(
                error.message.replace("--http", "--port"),
                key="--port",
                next_step="Give another port, or none: then any free one is taken.",
            ) from error
        yield server


def _free(port: int) -> bool:
    from poller.errors import ConfigError
    from poller.http.addresses import read_address

    try:
        read_address(str(port)).listen(1).close()
    except ConfigError:
        return False
    return True


def _open(url: str) -> None:
    """Where there is a screen: a browser in the terminal itself would take it."""
    import webbrowser

    if sys.platform in ("win32", "darwin") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(url)
