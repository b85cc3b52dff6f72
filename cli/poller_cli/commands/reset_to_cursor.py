"""`poller reset-to-cursor`: go on right after a row that the operator names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from poller_cli.commands.options import Moved, NameArgument
from poller_cli.session import Session


def reset_to_cursor(
    session: Session,
    name: NameArgument,
    value: Annotated[
        str, typer.Option("--value", metavar="TEXT", help="The cursor column's value.", show_default=False)
    ],
    pk: Annotated[
        list[str] | None,
        typer.Option("--pk", metavar="COLUMN=VALUE", help="A key column's value; once for each key column."),
    ] = None,
    token_at_least: Annotated[
        int,
        typer.Option(
            "--token-at-least", metavar="N", min=0, max=2**52, help="Raise the fencing token to N, after a restore."
        ),
    ] = 0,
    *,
    consent: Moved,
) -> int:
    """Go on right after the row of this cursor value and key, which need not exist.

    The database checks the value before anything is written. A time without a zone is in UTC if the column has zones.

    Example: poller reset-to-cursor orders --value 2026-04-07T01:23:45 --pk id=12093

    It says how the column itself writes the value. If the state document was deleted, it makes one, and keeps the
    lease for its full time.
    """
    from poller.admin.cursors import typed_cursor
    from poller.admin.refusals import clean
    from poller.admin.resets import Reset
    from poller_cli.output.change_report import Report

    with session.app() as app:
        poller = app.poller(name)
        clean(value, "--value")
        options = app.config.pollers[name].source
        keys = _keys(pk or [], options.pk_columns, options.cursor_column)
        cursor = typed_cursor(poller.source, value, keys, f"--pk {', '.join(pk or [])[:80]}")
        return Report(session, app, consent, name).carry_out(poller, Reset(cursor, token_at_least))


def _keys(pk: Sequence[str], pk_columns: Sequence[str], cursor_column: str) -> dict[str, str]:
    """`--pk` by column, every key column exactly once. Raises: WrongArgument."""
    import difflib

    from poller.admin.refusals import WrongArgument, clean

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
                f"--pk: {name[:80]!r} is not a key column of {_key(pk_columns)}.{hint}",
            )
        if name in keys:
            raise WrongArgument(f"--pk: {name} is given twice.")
        keys[name] = value
    missing = [name for name in pk_columns if name not in keys and name != cursor_column]
    if missing:
        raise WrongArgument(
            f"--pk: the key column{'s' * (len(missing) > 1)} {', '.join(missing)} of {_key(pk_columns)} "
            f"{'are' if len(missing) > 1 else 'is'} missing.",
            next_step=f"Add {' '.join(f'--pk {name}=...' for name in missing)}",
        )
    return keys


def _key(pk_columns: Sequence[str]) -> str:
    """The key, for people."""
    return f"the key ({', '.join(pk_columns)})"
