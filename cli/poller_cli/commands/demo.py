"""`poller demo`: self-contained shows on embedded SQLite; they fail when a single row is missing."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from poller.model.when import took
from poller_cli import exits
from poller_cli.session import Session

if TYPE_CHECKING:
    from poller_cli.output.models import DemoOutput, PoisonDemoOutput


def demo(
    session: Session,
    poison: Annotated[
        bool,
        typer.Option(
            "--poison",
            help="Another show: one flight always fails. It is found, set aside and tried again while the others go "
            "on, and delivered when the handler is fixed. Its --json is that of schemas/demo-poison.schema.json.",
        ),
    ] = False,
) -> int:
    """See it work: flights arrive while two workers compete, and one of them is killed in mid-batch.

    Needs nothing but Python and takes about half a minute. Everything stays in a temporary folder.

    Example: poller demo
    """
    from poller_cli.terminal.signals import stopped

    say = partial(_say, sys.stderr if session.json else sys.stdout)
    temporary = tempfile.TemporaryDirectory(prefix="poller-demo-", ignore_cleanup_errors=True)
    with stopped() as stop, temporary as folder:
        output, table = (_poison if poison else _workers)(Path(folder), say, stop)
    session.show(output, lambda: table)
    return exits.DONE if output.ok else exits.FAILED


def _say(out: IO[str], seconds: float, line: str) -> None:
    """A line of the show, `seconds` after its beginning."""
    from poller_cli.terminal.printing import folded

    print(folded(f"{seconds:5.1f} s  {line}", hang=9, stream=out), file=out, flush=True)


def _workers(folder: Path, say: Callable[[float, str], None], stop: threading.Event) -> tuple[DemoOutput, str]:
    """Two workers, one of them killed."""
    from poller_cli.demo.play import Play
    from poller_cli.demo.scene import Scene

    output = Play(Scene(folder), say, stop).perform()
    return output, _table(output)


def _poison(folder: Path, say: Callable[[float, str], None], stop: threading.Event) -> tuple[PoisonDemoOutput, str]:
    """One row that fails."""
    from poller_cli.demo.poison import PoisonPlay
    from poller_cli.demo.poison_scene import PoisonScene

    output = PoisonPlay(PoisonScene(folder), say, stop).perform()
    return output, _poison_table(output)


def _table(output: DemoOutput) -> str:
    rows = [
        ("flights that arrived", f"{output.rows_written:,}"),
        ("flights that reached a handler", f"{output.rows_delivered:,}"),
        ("missing", f"{output.missing:,}"),
        ("delivered twice", f"{output.delivered_twice:,}"),
        ("  of these in the killed batch", f"{output.delivered_twice - output.twice_outside_killed_batch:,}"),
        ("  for any other reason", f"{output.twice_outside_killed_batch:,}"),
        ("fencing token", f"{output.token_before_kill} -> {output.token_after_takeover}"),
        ("from the kill to the takeover", f"{took(output.takeover_seconds)} (lease of 3 s, and 2 s of caution)"),
        ("whole show", f"{took(output.elapsed_seconds)}"),
    ]
    verdict = (
        "Every flight was delivered; twice only what the killed worker had in hand."
        if output.ok
        else "This is NOT as it must be."
    )
    return _shown(rows, verdict)


def _poison_table(output: PoisonDemoOutput) -> str:
    order = "in order" if output.in_order_per_aircraft else "OUT OF order"
    rows = [
        ("flights that arrived", f"{output.rows_written:,}"),
        ("flights that were done", f"{output.rows_delivered:,}"),
        ("missing", f"{output.missing:,}"),
        ("done twice", f"{output.delivered_twice:,}"),
        ("calls to find the one that fails", f"{output.calls_to_find} of at most {output.calls_to_find_at_most}"),
        ("done while it waited", f"{output.delivered_before_replay:,}"),
        (
            "done by the replay",
            f"{output.delivered_by_replay:,}, {order}",
        ),
        ("whole show", f"{took(output.elapsed_seconds)}"),
    ]
    verdict = (
        "Every flight was done exactly once; one bad row stopped nothing but its own aircraft."
        if output.ok
        else "This is NOT as it must be."
    )
    return _shown(rows, verdict)


def _shown(rows: list[tuple[str, str]], verdict: str) -> str:
    from poller_cli.terminal.printing import folded

    lines = ["", *(f"  {name:<34}{value}" for name, value in rows), "", verdict]
    return "\n".join(folded(line, hang=4, stream=sys.stdout) for line in lines)
