"""What `poller backfill` shows: the range and its parts before it asks, progress, and what came of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import IO, TYPE_CHECKING

from poller import worker
from poller.admin.counts import number
from poller.backfill.run import Backfill, BackfillRequest
from poller_cli import exits
from poller_cli.terminal.confirmation import Consent, confirm
from poller_cli.terminal.printing import (
    claim_stdout,
    complain,
    copyable,
    folded,
    notice,
    of_poller,
    print_json,
    printable,
)

if TYPE_CHECKING:
    from poller.backfill.parts import Part
    from poller.backfill.result import BackfillOutput
    from poller.config import AppConfig
    from poller.observability import Observer
    from poller.ports import Event
    from poller_cli.session import Session
    from poller_cli.terminal.progress import LiveProgress

_OPTIONS = {"begins": "--from", "ends": "--to", "name": "--as"}


class TypedRequest(BackfillRequest):
    """As it is typed."""

    again = "run the same command"

    def option(self, name: str, value: object = None) -> str:
        """As it is typed."""
        option = _OPTIONS.get(name, f"--{name}")
        return option if value is None else f"{option} {value}"


class BackfillReport:
    """About one backfill: its preview, the question, progress, and what came of it.

    Args:
        stop: set by SIGTERM and Ctrl-C while rows are delivered.

    Attributes:
        observers: what its pollers' events are given to.
    """

    def __init__(self, session: Session, consent: Consent, stop: Event) -> None:
        from poller_cli.output.events import EventPrinter
        from poller_cli.output.log import log_to_stderr

        self._json = session.json
        self._consent = consent
        self._stop = stop
        self._in_hand = worker.BatchesInHand()
        self._progress = session.progress()
        self._codes: list[int] = []
        self._out: IO[str] | None = None
        self.observers: list[Observer] = [
            self._in_hand,
            EventPrinter(json_lines=None, debug=session.debug, quiet_errors=True),
        ]
        if self._progress is not None:
            self.observers.append(self._progress)
        log_to_stderr(debug=session.debug)

    def show_times(self, config: AppConfig) -> None:
        """Know what the times of this configuration's pollers mean."""
        if self._progress is not None:
            self._progress.show_times(config)

    def carry_out(self, work: Backfill) -> int:
        """Show it, ask, and deliver it. Raises: as `Poller.backfill`."""
        output = work.prepare()
        for line in work.notices:
            notice(line)
        if output is None or output.dry_run:
            self.preview(work)
        if output is None:
            self.confirm(work.poller.name)
            with self.delivering(work):
                output = work.deliver(stop=self._stop, ended=self.ended)
        return self.report(output)

    def preview(self, work: Backfill) -> None:
        """One screen for people."""
        if self._json:
            return
        rows = "not counted" if work.pending is None else number(*work.pending)
        lines = [
            ("range", f"from {work.range.low.value}, up to but not including {work.range.high.value}"),
            ("rows", f"{rows} will be delivered to {work.poller.options.handler}"),
            *(("state", text) for text in _places(work.parts, verbose=self._consent.verbose)),
        ]
        print(f"backfill {work.poller.name} as {work.name}")
        for name, text in lines:
            print(folded(printable(f"{name:<9} {text}", indent="  "), hang=12, stream=sys.stdout))
        sys.stdout.flush()

    def confirm(self, name: str) -> None:
        """Ask, unless it was agreed to beforehand. Raises: Refused."""
        confirm(self._consent, name, "backfill")
        if self._json:
            self._out = claim_stdout()  # from here on the handler may print

    @contextmanager
    def delivering(self, work: Backfill) -> Iterator[None]:
        """Signals finish the batches in hand; on a terminal, a line for each part."""
        if self._progress is not None:
            for part in work.left:
                _follow(self._progress, work, part)
        with (
            worker.stopped_by_signals(self._stop, self._in_hand, exit_code=exits.FAILED),
            self._progress or nullcontext(),
        ):
            yield

    def ended(self, part: Part, next_step: str | None) -> None:
        """Say why it is not finished, if it is not."""
        if part.end is not None:
            self._codes.append(exits.of_end(part.end))
        reason = part.paused or part.error
        if part.error is not None and reason is not None:
            text = f"{reason.rstrip('.')}. {next_step}" if next_step else reason
            complain(of_poller(part.name, text))

    def report(self, output: BackfillOutput) -> int:
        """Print what came of it."""
        delivered = f"{output.rows:,} row{'' if output.rows == 1 else 's'} delivered"
        if self._out is not None:
            sys.stdout = self._out
        if self._json:
            print_json(output)
        elif output.already_done:
            _say(f"{output.name} was done already: every row of the range was delivered. Nothing was done.")
            _say(output.next_step or "")
        elif output.dry_run:
            print("A dry run: nothing was delivered.")
        elif output.finished:
            _say(f"Done: {delivered}, and {output.name} is finished.")
        elif output.next_step is not None:
            _say(copyable(f"Not finished: {delivered}. {output.next_step}"))
        return exits.worst(self._codes)


def _say(text: str) -> None:
    print(folded(text, hang=2, stream=sys.stdout))


def _follow(progress: LiveProgress, work: Backfill, part: Part) -> None:
    """A line for the whole of a part, with all its rows where they could be counted."""
    from poller.sources.columns import parse_utc
    from poller_cli.terminal.pace import Pace

    end = None
    if work.poller.name in progress.zones:
        zone = progress.zones[part.name] = progress.zones[work.poller.name]
        end = parse_utc(part.range.high.value, zone)
    count = work.count_of(part)
    progress.lasting[part.name] = Pace(total=None if count is None or count[1] else count[0], end=end)


def _places(parts: Sequence[Part], *, verbose: bool) -> Iterator[str]:
    """How far each part has come, with its name if there are several; where it is asked for, where its document is."""
    for part in parts:
        name = f"{part.name}: " if len(parts) > 1 else ""
        yield f"{name}{_progress(part)}" + (f", {part.operator.file.location}" if verbose else "")


def _progress(part: Part) -> str:
    if part.finished:
        return "finished"
    if part.state is None:
        return "new"
    if part.paused is not None:
        return part.paused
    return f"goes on from {part.state.checkpoint.cursor}{', halted' if part.halted else ''}"
