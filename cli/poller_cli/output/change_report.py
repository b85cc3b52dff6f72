"""What commands that change state show: before and after in one screen, and what was done; or one JSON object."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from poller.admin.change_result import ChangeOutput
from poller.admin.changes import Change, Changes, Preview
from poller.admin.pausing import await_worker
from poller.model.escape import escape_lines
from poller.model.when import span
from poller_cli import exits
from poller_cli.session import Session
from poller_cli.terminal.confirmation import confirm, will_ask
from poller_cli.terminal.layout import columns, wrapped
from poller_cli.terminal.printing import copyable, folded, notice, print_json, printable

if TYPE_CHECKING:
    from poller.admin.wired import WiredPoller
    from poller.app import App
    from poller_cli.terminal.confirmation import Consent


class ChangeReport:
    """One change of the poller `name`: its preview, the question, and what was done.

    Attributes:
        request: what is asked for, with the configuration file of the session.
    """

    def __init__(self, session: Session, app: App, consent: Consent, name: str) -> None:
        self.session = session
        self.request = replace(consent, file=str(session.config))
        self.name = name
        self.verbose = consent.verbose
        self.production = app.config.environment == "production"
        self._said: list[str] = []

    @property
    def shows(self) -> bool:
        """True if people see a preview: with `--json` only where one will be asked."""
        return not self.session.json or will_ask(self.request)

    def carry_out(self, poller: WiredPoller, change: Change) -> int:
        """Show, ask, make and print it. Raises: as `Changes.make`."""
        return self.carry_out_on(Changes(poller, self.request), change)

    def carry_out_on(self, on: Changes, change: Change, *, wait: bool = True) -> int:
        """The same. `wait`: after a cancel, until its worker has stopped the handler."""
        output = self.made(on, change)
        if change.kind == "cancel":
            output = await_worker(on, output, wait=wait, waiting=self.waiting)
        return self.report(output)

    def made(self, on: Changes, change: Change) -> ChangeOutput:
        """Show it, ask, and make it; if something else happened meanwhile, again. Raises: as `Changes.make`."""
        found: ChangeOutput | Preview = on.prepare(change)
        while isinstance(found, Preview):
            if found.meanwhile is not None:
                notice(f"{self.name}: {found.meanwhile}" + (" It is now:" if self.shows else ""))
            if found.nothing is None:
                self.preview(found)
                found.refuse(self.request.allowed)
                if not self.request.dry_run:
                    production = self.request.configuration if found.strict and self.production else None
                    confirm(self.request, self.name, self._words(change.kind), production=production, typed=found.typed)
            found = on.apply(found)
        return found

    def preview(self, preview: Preview) -> None:
        """One screen for people, before anything is asked."""
        if not self.shows:
            return
        out, output = sys.stderr if self.session.json else sys.stdout, preview.output
        self._said = list(output.notes)
        print(f"{self._words(output.command)} {self.name}", file=out)
        place = [("state", output.document)] if self.verbose else []
        for name, text in [*place, *preview.lines, *_notes(output.notes)]:
            print(_line(name, text, out), file=out)
        out.flush()

    def _words(self, kind: str) -> str:
        """What a change of that kind is called here: what the operator typed, which the record need not say."""
        return self.session.words or kind

    def waiting(self, output: ChangeOutput, worker: str, seconds: float) -> None:
        """One line on stderr: a person who interrupts knows that the change was made."""
        made = f"{self.name} is cancelled (change {(output.id or '')[:8]})" if output.changed else self.name
        notice(
            f"{made}: waiting up to {span(seconds)} until {worker} has stopped its handler; Ctrl-C only ends the wait"
        )

    def report(self, output: ChangeOutput) -> int:
        """Print what was done, or why nothing was."""
        with surely_reported(output):
            return self._print(output)

    def _print(self, output: ChangeOutput) -> int:
        if self.session.json:
            print_json(output)
            return exits.DONE
        if not output.changed:
            nothing = "A dry run: nothing was changed." if output.dry_run else "Nothing was changed."
            unsaid = [note for note in output.notes if note not in self._said]
            print(folded(printable(copyable(" ".join([*unsaid, nothing]))), hang=2, stream=sys.stdout))
            for name, text in self._handler(output):
                print(_line(name, text, sys.stdout))
            return exits.DONE
        lines = [("change", f"{(output.id or '')[:8]} by {output.by}")]
        if output.backup:
            lines.append(("backup", output.backup))
        if output.undo:
            lines.append(("undo", output.undo))
        if output.starts_after_seconds:
            lines.append(("wait", f"no worker starts for up to {span(output.starts_after_seconds)}"))
        lines += self._handler(output)
        lines += _notes(note for note in output.notes if note not in self._said)
        print("Done.")
        for name, text in lines:
            print(_line(name, text, sys.stdout))
        if output.configure is not None:
            checked = self.request.command("check", self.name)
            added = f"Next: add this to {self.session.config}, change what is to differ, then run: {checked}"
            print(folded(added, hang=2, stream=sys.stdout))
            print(f"\n{escape_lines(output.configure)}")
        return exits.DONE

    def _handler(self, output: ChangeOutput) -> list[tuple[str, str]]:
        """What became of the handler that a cancel stops."""
        worker = None if output.after is None else output.after.owner_id
        match output.handler:
            case "ended":
                said = f"stopped: {worker} gave the lease back"
            case "running":
                left = output.handler_lease_seconds or 0.0
                said = (
                    f"outlived: {worker} has not given the lease back, so its handler ignores batch.lost, or "
                    f"it cannot reach the store. The lease is no longer renewed and ends within {span(left)}; nothing "
                    "that the handler does is committed"
                )
            case "unknown":
                look = self.request.command("status", self.name)
                said = f"whether {worker} has stopped it is not known; look with: {look}"
            case _:
                return []
        return [("handler", said)]


def _line(name: str, text: str, stream: IO[str]) -> str:
    return "\n".join(wrapped(printable(f"{name:<9} {text}", indent="  "), columns(stream), hang=12, statement=True))


def _notes(notes: Iterable[str]) -> list[tuple[str, str]]:
    return [("note", copyable(note)) for note in notes]


@contextmanager
def surely_reported(*outputs: ChangeOutput) -> Iterator[None]:
    """Around what prints them on stdout: where that fails, stderr says at least which changes were made."""
    try:
        yield
        sys.stdout.flush()
    except OSError:
        for output in outputs:
            if output.changed:
                undo = f"; undo: {output.undo}" if output.undo else ""
                notice(f"{output.name} was changed by {output.command} (id {(output.id or '')[:8]}){undo}")
        raise
