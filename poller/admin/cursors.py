"""The fit of a cursor and a source: whose it is, what differs, and what the column and the key can hold."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import cast

from poller.admin.refusals import WrongArgument
from poller.errors import FieldDifference, FingerprintMismatch, SourceError, SourceUnavailable
from poller.model.checkpoint_file import CheckpointExport
from poller.model.cursor import Cursor
from poller.model.document import State
from poller.model.fingerprint import SourceDescription, differences
from poller.ports import InspectableSource, Source
from poller.tick.preflight import put_back


def located(source: Source) -> SourceDescription:
    """The configured source, with what its configuration leaves to the server, if that answers: a command must not
    need it. Raises nothing."""
    if isinstance(source, InspectableSource):
        with contextlib.suppress(SourceError):
            return source.locate()
    return source.describe()


def is_foreign(state: State | CheckpointExport, source: SourceDescription) -> bool:
    """True if a checkpoint is known to belong to another source than this one."""
    return not source.belongs(state.source_fingerprint, state.source)


def unreadable(source: Source, state: State, described: SourceDescription) -> list[str]:
    """A note where the checkpoint belongs to another source, and the configured one does not exist or cannot be
    reached: then a typo is likelier than a move. Asks the database only then."""
    if not is_foreign(state, described) or not isinstance(source, InspectableSource):
        return []
    missing = source.missing()
    if missing is None:
        return []
    return [f"The configured source cannot be read: {missing.message} {put_back(differences(state.source, described))}"]


def changed_source(source: SourceDescription) -> Callable[[State], list[FieldDifference]]:
    """How the document's source differs from the configured one, if it does."""
    return lambda state: differences(state.source, source) if is_foreign(state, source) else []


def refuse_foreign(source: Source, cursor: Cursor | None, *, name: str) -> None:
    """Raises: FingerprintMismatch, for a cursor of another kind or key than the source of the poller `name` has."""
    described = source.describe()
    if cursor is None or fits(cursor, described):
        return
    keys = ", ".join(cursor.tiebreaker or {})
    raise FingerprintMismatch(
        f"The cursor {cursor} is of kind {cursor.kind} with key {keys or 'none'}, but {name!r} is configured "
        f"with kind {described.cursor_kind} and key {', '.join(described.pk_columns)}: it means nothing there.",
        stored="",
        configured=described.fingerprint(),
        next_step=f"Nothing was changed. To go on elsewhere: poller reset-to-cursor {name}, or poller "
        f"reset-to-beginning {name}.",
    )


def fits(cursor: Cursor, source: SourceDescription) -> bool:
    """True if a cursor is of the source's kind and key."""
    keys = cursor.tiebreaker
    return cursor.kind == source.cursor_kind and (keys is None or set(keys) == set(source.pk_columns))


def typed_cursor(source: Source, value: str, keys: Mapping[str, str] | None, key: str) -> Cursor:
    """The cursor that a person wrote, as the column itself writes it; `key`: what the key is called in an error.

    Raises: WrongArgument, for what the database does not take; SourceUnavailable, SourceError where it cannot be asked.
    """
    asked = cast("InspectableSource", source)
    asked.lag(None, cap=1)  # a table that cannot be read is no fault of the arguments'
    try:
        cursor = asked.parse_cursor(value, keys)
    except SourceUnavailable:
        raise
    except SourceError as error:
        raise WrongArgument(error.message, next_step=error.next_step) from None
    why = not_held(asked, cursor)
    if why:
        raise WrongArgument(f"{key}: the key cannot hold it: {why}.")
    return cursor


def not_held(source: InspectableSource, cursor: Cursor) -> str:
    """Why the columns cannot hold this cursor, asked of a database that can be read; empty if they can.

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


def impossible(source: Source, cursor: Cursor | None) -> str:
    """Why a kept cursor cannot be one of this source; empty if it can, and if that is not known: of a table
    without rows, which does not show its types, and of a source that cannot be inspected.

    Raises: SourceUnavailable; SourceError, if the table cannot be read.
    """
    if not isinstance(source, InspectableSource) or not source.lag(None, cap=1).pending or cursor is None:
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
