"""What the resets share: the plan, the cursor that an operator typed, and the checks of a cursor against the source."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from poller.app import Poller
from poller.delivery.preflight import put_back
from poller.errors import FieldDifference, FingerprintMismatch, SourceError, SourceUnavailable
from poller.model.changes import to_reset
from poller.model.cursor import Cursor
from poller.model.document import State
from poller.model.fingerprint import SourceDescription, differences
from poller.ports import InspectableSource
from poller_cli.changes import Plan
from poller_cli.effects import measure
from poller_cli.refusals import WrongArgument, clean


def reset_plan(poller: Poller, kind: str, cursor: Cursor | None) -> Plan:
    """Move the checkpoint; it then belongs to the configured source, whatever it belonged to before."""
    source = located(poller)
    return Plan(
        kind=kind,
        transition=to_reset(cursor, source),
        effect=lambda state: measure(poller.source, state.checkpoint.cursor, cursor, foreign=is_foreign(state, source)),
        differences=changed_source(source),
        notes=lambda state: unreadable(poller, state, source),
    )


class Belonging(Protocol):
    """What names the source that it belongs to: a state document, or an export."""

    @property
    def source_fingerprint(self) -> str: ...
    @property
    def source(self) -> dict[str, Any] | None: ...


def located(poller: Poller) -> SourceDescription:
    """The configured source, with what its configuration leaves to the server, where that answers: a command must not
    need it. Raises nothing."""
    if isinstance(poller.source, InspectableSource):
        with contextlib.suppress(SourceError):
            return poller.source.locate()
    return poller.source.describe()


def is_foreign(state: Belonging, source: SourceDescription) -> bool:
    """Whether a checkpoint is known to belong to another source than this one."""
    return not source.belongs(state.source_fingerprint, state.source)


def unreadable(poller: Poller, state: State, source: SourceDescription) -> list[str]:
    """A note where the checkpoint belongs to another source, and the configured one does not exist or cannot be
    reached: then a typo is likelier than a move. Asks the database only then."""
    if not is_foreign(state, source) or not isinstance(poller.source, InspectableSource):
        return []
    missing = poller.source.missing()
    if missing is None:
        return []
    return [f"The configured source cannot be read: {missing.message} {put_back(differences(state.source, source))}"]


def changed_source(source: SourceDescription) -> Callable[[State], list[FieldDifference]]:
    """How the document's source differs from the configured one, if it does."""
    return lambda state: differences(state.source, source) if is_foreign(state, source) else []


def refuse_foreign(poller: Poller, cursor: Cursor | None) -> None:
    """Raises: FingerprintMismatch, for a cursor of another kind or key than the configured source has."""
    source = poller.source.describe()
    if cursor is None or fits(cursor, source):
        return
    keys = ", ".join(cursor.tiebreaker or {})
    raise FingerprintMismatch(
        f"The cursor {cursor} is of kind {cursor.kind} with key {keys or 'none'}, but {poller.name!r} is configured "
        f"with kind {source.cursor_kind} and key {', '.join(source.pk_columns)}: it means nothing there.",
        stored="",
        configured=source.fingerprint(),
        next_step=f"Nothing was changed. To go on elsewhere: poller reset-to-cursor {poller.name}, or poller "
        f"reset-to-beginning {poller.name}.",
    )


def fits(cursor: Cursor, source: SourceDescription) -> bool:
    """Whether a cursor is of the source's kind and key."""
    keys = cursor.tiebreaker
    return cursor.kind == source.cursor_kind and (keys is None or set(keys) == set(source.pk_columns))


def checked_cursor(
    poller: Poller, value: str, pk: Sequence[str], pk_columns: Sequence[str], cursor_column: str
) -> Cursor:
    """The cursor that an operator typed, as the column itself writes it.

    Raises: WrongArgument, for a key column that is missing, unknown or named twice, and for what the database does not
    take; SourceUnavailable, SourceError where it cannot be asked.
    """
    clean(value, "--value")
    keys = _keys(pk, pk_columns, cursor_column)
    source = cast("InspectableSource", poller.source)
    source.lag(None, cap=1)  # a table that cannot be read is no fault of the arguments'
    try:
        cursor = source.parse_cursor(value, keys)
    except SourceUnavailable:
        raise
    except SourceError as error:
        raise WrongArgument(error.message, next_step=error.next_step) from None
    why = not_held(source, cursor)
    if why:
        raise WrongArgument(f"--pk {', '.join(pk)[:80]}: the key cannot hold it: {why}.")
    return cursor


def not_held(source: InspectableSource, cursor: Cursor) -> str:
    """Why the columns cannot hold this cursor, asked of a database that can be read; empty where they can.

    Raises: SourceUnavailable.
    """
    try:
        source.count_between(cursor, cursor, cap=1)
    except SourceUnavailable:
        raise
    except SourceError as error:
        return error.message.rpartition(": ")[2].rstrip(".")
    except OverflowError:
        return "a value is out of the column's range"
    return ""


def impossible(source: InspectableSource, cursor: Cursor | None) -> str:
    """Why a kept cursor cannot be one of this source; empty where it can, and for a table without rows, which does not
    tell its types.

    Raises: SourceUnavailable; SourceError, where the table cannot be read.
    """
    if not source.lag(None, cap=1).pending or cursor is None:
        return ""
    why = not_held(source, cursor)
    if why:
        return why
    try:
        source.parse_cursor(cursor.value, None)
        source.lag(cursor, cap=1)  # as the next tick reads it, which refuses a text in another form than the column's
    except SourceUnavailable:
        raise
    except SourceError as error:
        return error.message.rstrip(".")
    return ""


def _keys(pk: Sequence[str], pk_columns: Sequence[str], cursor_column: str) -> dict[str, str]:
    """`--pk` by column, every key column exactly once."""
    keys: dict[str, str] = {}
    for one in pk:
        name, equals, value = clean(one, "--pk").partition("=")
        if not equals:
            raise WrongArgument(
                f"--pk {one[:80]}: must be COLUMN=VALUE.", next_step=f"Write --pk {pk_columns[0]}=12093."
            )
        if name not in pk_columns:
            near = difflib.get_close_matches(name, pk_columns, 1, cutoff=0.5)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise WrongArgument(
                f"--pk: {name[:80]!r} is no key column of {poller_keys(pk_columns)}.{hint}",
            )
        if name in keys:
            raise WrongArgument(f"--pk: {name} is given twice.")
        keys[name] = value
    missing = [name for name in pk_columns if name not in keys and name != cursor_column]
    if missing:
        raise WrongArgument(
            f"--pk: the key column{'s' * (len(missing) > 1)} {', '.join(missing)} of {poller_keys(pk_columns)} "
            f"{'are' if len(missing) > 1 else 'is'} missing.",
            next_step=f"Add {' '.join(f'--pk {name}=...' for name in missing)}",
        )
    return keys


def poller_keys(pk_columns: Sequence[str]) -> str:
    """The key, for people."""
    return f"the key ({', '.join(pk_columns)})"
