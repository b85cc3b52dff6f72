"""What a handler can say beside "every row is done": by what it raises, and by what it returns.

A row can also be named by `batch.fail` and `batch.reject`. What comes of a call as a whole is a `CallResult`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import islice
from typing import Any

from poller.errors import PollerError
from poller.handler.batch import Batch
from poller.model.durations import LONGEST_PAUSE, parse_duration
from poller.model.escape import shown
from poller.ports import Row

FORM = "batchItemFailures"
"""The name by which a returned mapping is known to name rows, as in AWS Lambda's partial batch responses."""
IDENTIFIER = "itemIdentifier"
DEFAULT_PAUSE = timedelta(seconds=30)
SHORTEST_PAUSE = timedelta(seconds=1)
_LONGEST_SHOWN = 100
"""Characters of an identifier that are quoted."""
_NAMES_LOOKED_AT = 100
"""So many names of what was returned are compared with `FORM`."""


class Reject(Exception):
    """Raised by a handler: this row is poison, and no attempt will make it work.

    Nothing else of the batch is done. With `on_poison = "quarantine"` the row waits for a person, and the others come
    again without it; with `"halt"` the poller halts; with `"block"`, the default, it is a failure of this row.

    Args:
        row: a row of the batch, as it was handed over. why: what is wrong with it.
    """

    def __init__(self, row: Row, why: str) -> None:
        super().__init__(why)
        self.row = row
        self.why = why

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.row, self.why)


class RetryLater(Exception):
    """Raised by a handler: what it calls is down, nothing of the batch is done, and no row is at fault.

    The call does not count, and none is made before the time is over. Raised in a batch it holds the whole poller;
    raised for a row that is tried alone, the rows of its ordering key (failures 8).

    Args:
        why: what is down.
        after: when to try again, such as `"30s"`, or a timedelta; at least a second and at most a day are waited.
    Raises: ValueError or TypeError where `after` is not a duration.
    """

    def __init__(self, why: str, after: str | timedelta = "30s") -> None:
        if not isinstance(after, str | timedelta):
            raise TypeError(f'after is a duration such as "30s", or a timedelta, not {type(after).__name__}')
        super().__init__(why)
        self.why = why
        self.after = parse_duration(after)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.why, self.after)


class InvalidReport(PollerError):
    """What a handler said of its rows cannot be: it is malformed, or of a row that is not of its batch, or it comes
    too late. The whole batch failed."""


def pause_of(error: RetryLater) -> float:
    """The seconds for which no call is made. A subclass may hold anything in `after`: an outage is one all the same."""
    try:
        pause = parse_duration(error.after)
    except Exception:  # noqa: BLE001 - see above
        pause = DEFAULT_PAUSE
    return min(max(pause, SHORTEST_PAUSE), LONGEST_PAUSE).total_seconds()


def rejected_position(batch: Batch, error: Reject) -> int:
    """The position of the row that was rejected. Raises: InvalidReport."""
    row = error.row
    position = next((position for position, one in enumerate(batch.rows) if one is row), None)
    if position is None:
        raise InvalidReport("Reject(row, why) takes a row of this batch, and not a copy of one.")
    return _in_time(batch, position)


def reported_positions(batch: Batch, returned: object) -> tuple[int, ...]:
    """The positions of the rows that are named in what the handler returned; none where it is anything else than
    `{"batchItemFailures": [{"itemIdentifier": batch.key(row)}, ...]}`, which means that every row is done.

    Raises: InvalidReport where it begins so and goes on differently, spells the name otherwise, names what is not of
    this batch, or is an exception that was meant to be raised; and what it raises itself when it is read.
    """
    if isinstance(returned, Reject | RetryLater):
        raise InvalidReport(f"{shown(type(returned).__name__)} was returned: it is raised, or nothing comes of it.")
    if not isinstance(returned, Mapping) or FORM not in returned:
        _refuse_another_spelling(returned)
        return ()
    named = list(_identifiers(returned[FORM]))
    if not named:
        return ()
    known = defaultdict(list)
    for position, key in enumerate(batch.keys()):
        known[key].append(position)
    for identifier in named:
        if identifier not in known:
            raise InvalidReport(
                f'{FORM}: "{shown(identifier, _LONGEST_SHOWN)}" is not of this batch, which failed as a whole.',
                next_step="Name rows by batch.key(row).",
            )
    already = {failure.position for failure in batch.failures}
    found = sorted({position for identifier in named for position in known[identifier]} - already)
    return tuple(_in_time(batch, position) for position in found)


def _refuse_another_spelling(returned: object) -> None:
    """Rows that are named under a name like `FORM` would pass as done. Raises: InvalidReport."""
    for name, listed in islice(dict.items(returned), _NAMES_LOOKED_AT) if isinstance(returned, dict) else ():
        if type(name) is str and isinstance(listed, list | tuple) and listed:
            plain = name.replace("_", "").replace("-", "").lower()
            if plain in (FORM.lower(), FORM.lower().removesuffix("s")):
                raise InvalidReport(
                    f'"{shown(name, _LONGEST_SHOWN)}" was returned: the batch failed as a whole.',
                    next_step=f'Name rows under "{FORM}".',
                )


def _identifiers(listed: object) -> Iterator[str]:
    """What is named in the list. A generator is none: what is in it did not run."""
    if not isinstance(listed, list | tuple):
        raise _malformed(f"is a list, not {type(listed).__name__}")
    for item in listed:
        if not isinstance(item, Mapping):
            raise _malformed(f'holds {{"{IDENTIFIER}": batch.key(row)}}, not {type(item).__name__}')
        if IDENTIFIER not in item:
            raise _malformed(f'holds an entry without "{IDENTIFIER}"')
        identifier = item[IDENTIFIER]
        if not issubclass(type(identifier), str):
            raise _malformed(f"holds an {IDENTIFIER} that is not a text but {type(identifier).__name__}")
        yield str.__str__(identifier)  # a subclass may raise when it is compared


def _malformed(what: str) -> InvalidReport:
    return InvalidReport(
        f"{FORM} {shown(what)}: the batch failed as a whole.", next_step=f'Return {{"{FORM}": []}} for none.'
    )


def _in_time(batch: Batch, position: int) -> int:
    if batch.noted(position):
        raise InvalidReport(
            f"Row {position + 1} of {len(batch)} was reported as failed, but a sink has noted it as applied.",
            next_step="Name it by batch.fail or batch.reject before the sink's block ends.",
        )
    return position
