"""The success or failure of an invocation, as the host shall see it."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Mapping

from poller.errors import PollerError
from poller.handler.call import HandlerFailure
from poller.model.escape import escape_lines
from poller.model.redact import redact
from poller.poller import Poller
from poller.tick.result import Outcome, TickResult

LONGEST_TRACE = 40_000
"""A longer traceback is not looked through for secrets: that takes seconds, in which no heartbeat runs."""
_NEXT_STEPS: Mapping[str, str] = {
    "handler_failed": "What was not done comes again.",
    "lease_lost": "Nothing is lost: the batch comes again. If this repeats, look at: poller history {name}, and give "
    "lease_ttl more time or batch_size fewer rows.",
    "commit_unknown": "The next tick reads what was stored; the batch may come again. If this repeats, look at the "
    "state store: poller check {name}.",
    "halted": "Fix the cause, then: poller resume {name}.",
    "blocked": "Look at the rows that wait: poller quarantine list {name}; then replay or discard them.",
}
_NO_FAILURE = frozenset({"paused", "backing_off"})
"""Outcomes that fail no invocation: an operator wants a pause; the failed call that a tick waits after has failed an
invocation of its own."""


class UnsuccessfulTick(PollerError):
    """A tick whose outcome the host must record as a failed invocation.

    Attributes:
        poller: which; outcome: `handler_failed`, `lease_lost`, `commit_unknown`, `blocked` or `halted`; result: the
            whole tick.
    """

    def __init__(self, message: str, *, poller: str, outcome: Outcome, result: TickResult, next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.poller = poller
        self.outcome = outcome
        self.result = result


def raise_on_failure(poller: Poller, result: TickResult) -> None:
    """Return if all is well or an operator wants it so; raise if a person should know.

    A handler's own exception is raised as it is, so that the host shows its type and place; unless `error_text` is off,
    because then no log may show its text, and unless it quotes a secret: the host logs all that it is given.
    """
    if result.ok or result.outcome in _NO_FAILURE:
        return
    name, own = poller.name, result.exception
    shown = poller.options.error_text and own is not None and _quotes_no_secret(own)
    next_step = _next_step(name, result)
    ours = isinstance(own, HandlerFailure) or not isinstance(own, Exception)
    if result.outcome == "handler_failed" and own is not None and shown and not ours:
        failing = _shown(f" on row {result.failing_row}") if result.failing_row is not None else ""
        note = f"poller {name}: the handler failed{failing}. {next_step}"
        if note not in getattr(own, "__notes__", ()):
            own.add_note(note)
        raise own
    error = UnsuccessfulTick(
        f"poller {name}: {result.outcome}: {result.error or 'no reason was given'}.",
        poller=name,
        outcome=result.outcome,
        result=result,
        next_step=next_step,
    )
    if result.trace and (ours or not shown):  # else the host prints the exception's own
        error.add_note(escape_lines(result.trace, f"{name}: "))
    raise error from (own if shown and not ours else None)


def _next_step(name: str, result: TickResult) -> str:
    """What comes of it, and what an operator can do."""
    command = _shown(shlex.join(["poller", *result.next_command])) if result.next_command else ""
    adds = result.next_command[:2] == ("quarantine", "add")
    if result.outcome == "halted" and command and adds:
        return f"Fix it, or set the row aside: {command}; then: poller resume {name}"
    if result.outcome != "handler_failed" or not command:
        return _NEXT_STEPS[result.outcome].format(name=name)
    if adds:
        return f"The row comes again, and nothing behind it is delivered. Fix it, or set it aside: {command}"
    return f"Look at the rows that wait: {command}"


def _shown(text: str) -> str:
    """The text, unless it quotes a secret or steers a terminal: a key is a value of the table."""
    return text if redact(text) == text == escape_lines(text) else ""


def _quotes_no_secret(error: BaseException) -> bool:
    """True if all that a host prints of it may be printed: its text, what caused it, and the lines that it went by;
    neither a secret nor what steers a terminal. Not what is too long for that, nor what raises when asked."""
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - what an exception has of its own may raise anything, SystemExit too
        return False
    return len(text) <= LONGEST_TRACE and redact(text) == text == escape_lines(text)
