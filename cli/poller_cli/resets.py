"""What the resets share: the plan, and the cursor that an operator typed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import cast

from poller.admin.cursors import changed_source, is_foreign, located, not_held, unreadable
from poller.admin.effects import measure
from poller.admin.refusals import WrongArgument, clean
from poller.app import Poller
from poller.errors import SourceError, SourceUnavailable
from poller.model.changes import to_reset
from poller.model.cursor import Cursor
from poller.ports import InspectableSource
from poller_cli.changes import Plan


def reset_plan(poller: Poller, kind: str, cursor: Cursor | None) -> Plan:
    """Move the checkpoint; it then belongs to the configured source, whatever it belonged to before."""
    source = located(poller.source)
    return Plan(
        kind=kind,
        transition=to_reset(cursor, source),
        effect=lambda state: measure(poller.source, state.checkpoint.cursor, cursor, foreign=is_foreign(state, source)),
        differences=changed_source(source),
        notes=lambda state: unreadable(poller.source, state, source),
    )


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
