"""`poller backfill`: a range of the table through the same handler, beside the live poller."""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from poller_cli import exits
from poller_cli.guards import ConfirmOption, Consent, DryRunOption, NameArgument, YesOption
from poller_cli.session import Session

if TYPE_CHECKING:
    from poller.observability import Observer, PollerEvent
    from poller.worker import Ended
    from poller_cli.backfilling import Backfill, Part
    from poller_cli.output.work_models import BackfillOutput
    from poller_cli.terminal.progress import LiveProgress


def backfill(
    session: Session,
    name: NameArgument,
    begins: Annotated[
        str,
        typer.Option(
            "--from", metavar="TEXT", help="The cursor column's first value in the range.", show_default=False
        ),
    ],
    ends: Annotated[
        str, typer.Option("--to", metavar="TEXT", help="The first value behind the range.", show_default=False)
    ],
    new_name: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="NEW", help="The name of its state document. [default: NAME-backfill-HASH of the range]"
        ),
    ] = None,
    parallel: Annotated[
        int,
        typer.Option("--parallel", metavar="N", min=1, max=32, help="Cut the range into N parts, delivered at once."),
    ] = 1,
    retry: Annotated[bool, typer.Option("--retry", help="Also where it halted because a batch failed too often.")] = (
        False
    ),
    yes: YesOption = False,
    confirm: ConfirmOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Deliver the rows of a range to the handler, beside the live poller, whose checkpoint is not touched.

    It has a state document of its own: run it again to go on where it was interrupted, by whatever it was. A range
    that was finished is not delivered again; to do that, give it another name with --as. With --parallel the handler
    is called from several threads at once; the parts are of the same width, or of as many rows each where most have one
    timestamp. While it is not finished, poller status shows it, and it is paused by its
    own name: poller pause orders-backfill-337cd319.

    Example: poller backfill orders --from 2026-04-06 --to 2026-04-07
    """
    from poller_cli.backfilling import Backfill
    from poller_cli.terminal.confirmation import confirm as ask
    from poller_cli.terminal.printing import tell

    stop = threading.Event()
    doing = _Doing(session, stop)
    with session.app(observers=doing.observers) as app:
        work = Backfill(app, name, low=begins, high=ends, new_name=new_name, parts=parallel)
        try:
            if work.begun_with not in (None, parallel) and parallel != 1:
                tell(f"It was begun with --parallel {work.begun_with}, and goes on so.")
            if work.empty:
                tell(f"{name}: the table holds no row; there is nothing to deliver.")
                return doing.nothing(work)
            if all(part.finished for part in work.parts):
                return doing.told(work, already_done=True)
            work.refuse_foreign()
            work.refuse_stopped(retry=retry)
            work.refuse_unsettled()
            doing.preview(work, retry=retry)
            if dry_run:
                return doing.told(work, dry_run=True)
            ask(Consent(yes=yes, confirm=confirm), name, "backfill", production=None)
            work.begin()
            for part in work.parts:
                if retry:
                    part.retry()
            return doing.deliver(work)
        finally:
            work.close()


class _Doing:
    """What is told, and to whom, while a backfill works."""

    def __init__(self, session: Session, stop: threading.Event) -> None:
        from poller.worker import BatchesInHand
        from poller_cli.output.events import EventPrinter
        from poller_cli.output.log import log_to_stderr

        self._session = session
        self._stop = stop
        self._counted: tuple[int, bool] | None = None
        self._printer = EventPrinter(json_lines=None, debug=session.debug, quiet_errors=True)
        self._progress: LiveProgress | None = None
        if not session.plain:
            from poller_cli.terminal.progress import LiveProgress

            self._progress = LiveProgress()
        self._parts: dict[str, Part] = {}
        self._in_hand = BatchesInHand()
        self._codes: list[int] = []
        self.observers: list[Observer] = [self._in_hand, self._count, self._printer]
        self.observers += [self._progress] if self._progress else []
        log_to_stderr(debug=session.debug)

    def _count(self, event: PollerEvent) -> None:
        from poller.observability import BatchCommitted

        if isinstance(event, BatchCommitted):
            self._parts[event.poller].rows += event.rows

    def preview(self, work: Backfill, *, retry: bool) -> None:
        """What will be done, before anything is asked."""
        from poller.admin.counts import number
        from poller_cli.terminal.printing import printable

        self._counted = work.count(retry=retry)
        if self._session.json:
            return
        shown = "not counted" if self._counted is None else number(*self._counted)
        lines = [
            ("range", f"from {work.range.low.value}, up to but not including {work.range.high.value}"),
            ("rows", f"{shown} will be delivered to {work.app.config.pollers[work.of].handler}"),
            *(("state", _place(part)) for part in work.parts),
        ]
        print(f"backfill {work.of} as {work.name}")
        for name, text in lines:
            print(printable(f"{name:<9} {text}", indent="  "))
        sys.stdout.flush()

    def deliver(self, work: Backfill) -> int:
        """All parts at once, each to its end."""
        from poller import worker
        from poller_cli.terminal.printing import claim_stdout

        self._parts = {part.poller.name: part for part in work.parts}
        todo = [part for part in work.parts if not part.finished]
        stdout = claim_stdout() if self._session.json else None
        if self._progress is not None:
            for part in todo:
                self._show(self._progress, work, part)
        signals = worker.stopped_by_signals(self._stop, self._in_hand, exit_code=exits.FAILED)
        with signals, self._progress or nullcontext():
            pollers = [part.poller for part in todo]
            worker.run(pollers, "until_idle", self._stop, ended=partial(self._ended, work))
        if stdout is not None:
            sys.stdout = stdout
        return self.told(work, code=exits.worst(self._codes))

    def _show(self, progress: LiveProgress, work: Backfill, part: Part) -> None:
        """A line for the whole of a part, with all its rows where they could be counted."""
        from poller.sources.columns.moments import parse_utc
        from poller_cli.terminal.pace import Pace
        from poller_cli.terminal.progress import zones_of

        zones, name = zones_of(work.app.config), part.poller.name
        end = None
        if work.of in zones:
            progress.zones[name] = zones[work.of]
            end = parse_utc(part.range.high.value, zones[work.of])
        count = work.count_of(part)
        progress.lasting[name] = Pace(total=None if count is None or count[1] else count[0], end=end)

    def _ended(self, work: Backfill, end: Ended) -> None:
        from poller.errors import PollerError
        from poller_cli.terminal.printing import complain, of_poller

        part = self._parts[end.poller.name]
        code, error = exits.of_end(end), end.error
        if code == exits.DONE:
            try:
                part.finish()
            except PollerError as refused:
                code, error = refused.exit_code, str(refused)
        else:
            with suppress(PollerError):
                part.look()
        self._codes.append(code)
        if error is not None:
            part.error = error
            if part.halted and part.paused is None:
                error = f"{error.rstrip('.')}. {work.once_fixed}"
            elif part.paused is not None:
                error = f"{part.paused.rstrip('.')}. {work.once_resumed}"
            complain(of_poller(end.poller.name, error))

    def nothing(self, work: Backfill) -> int:
        """No row is there, and none was counted: what was told to people programs are told too."""
        self._counted = (0, False)
        return self.told(work) if self._session.json else exits.DONE

    def told(self, work: Backfill, *, code: int = exits.DONE, already_done: bool = False, dry_run: bool = False) -> int:
        """Say what came of it."""
        from poller_cli.output.models import as_json
        from poller_cli.terminal.printing import print_json

        output = self._output(work, already_done=already_done, dry_run=dry_run)
        delivered = f"{output.rows:,} row{'' if output.rows == 1 else 's'} delivered"
        if self._session.json:
            print_json(as_json(output))
        elif already_done:
            print(f"{work.name} was done already: every row of the range was delivered. Nothing was done.")
            print(f"To deliver it once more, give it another name: --as {work.next_name}")
        elif dry_run:
            print("A dry run: nothing was delivered.")
        elif output.finished:
            print(f"Done: {delivered}. Every row of the range was; {work.name} is released.")
        else:
            next_step = "Run the same command again to go on."
            if work.paused or work.halted:
                next_step = work.once_resumed if work.paused else work.once_fixed
            print(f"Not finished: {delivered}. {next_step}")
        return code

    def _output(self, work: Backfill, *, already_done: bool, dry_run: bool) -> BackfillOutput:
        from poller_cli.output.work_models import BackfillOutput, BackfillPart

        return BackfillOutput(
            name=work.name,
            poller=work.of,
            app_name=work.app.config.app_name,
            dry_run=dry_run,
            already_done=already_done,
            finished=not work.empty and all(part.finished for part in work.parts),
            begins=work.range.low.value,
            ends=work.range.high.value,
            pending=None if self._counted is None else self._counted[0],
            pending_capped=self._counted is not None and self._counted[1],
            rows=sum(part.rows for part in work.parts),
            parts=[
                BackfillPart(
                    name=part.poller.name,
                    document=part.operator.file.location,
                    begins=part.range.low.value,
                    ends=part.range.high.value,
                    begins_key=part.range.low.tiebreaker,
                    ends_key=part.range.high.tiebreaker,
                    finished=part.finished,
                    halted=part.halted,
                    rows=part.rows,
                    cursor=None if part.state is None else part.state.checkpoint.cursor,
                    error=part.error,
                )
                for part in work.parts
            ],
        )


def _place(part: Part) -> str:
    where = part.operator.file.location
    if part.finished:
        return f"{where}, finished"
    if part.state is None:
        return f"{where}, new"
    if part.paused is not None:
        return f"{where}, {part.paused}"
    halted = ", halted" if part.halted else ""
    return f"{where}, goes on from {part.state.checkpoint.cursor}{halted}"
