"""`poller reset`, and its parts under names of their own: move a checkpoint."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poller_cli.commands.options import Moved, NameArgument
from poller_cli.session import Session

if TYPE_CHECKING:
    from poller.admin.changes import Change
    from poller.admin.restore import Restore
    from poller.config import SourceConfig
    from poller.model.cursor import Cursor
    from poller.poller import Poller

_PK = Annotated[
    list[str] | None,
    typer.Option("--pk", metavar="COLUMN=VALUE", help="A key column's value; once for each key column."),
]
_REBIND = Annotated[
    bool, typer.Option("--rebind", help="Also a checkpoint of another source. It then belongs to this one.")
]
_TOKEN = Annotated[
    int,
    typer.Option(
        "--token-at-least", metavar="N", min=0, max=2**52, help="Raise the fencing token to N, after a restore."
    ),
]
_PLACES = ("beginning", "snapshot", "here")
_BACKUP = re.compile(r"(backups/.*|\d{8}T\d{6}_\d{6}Z\.json)")


def reset(
    session: Session,
    name: NameArgument,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="PLACE",
            help="beginning, snapshot, here, a value, a file or a backup.",
            show_default=False,
        ),
    ],
    pk: _PK = None,
    rebind: _REBIND = False,
    token_at_least: _TOKEN = 0,
    *,
    consent: Moved,
) -> int:
    """Move the checkpoint, to go on elsewhere. Shows how many rows come again or never, asks, and keeps a backup.

    beginning delivers every row again; snapshot a captured table's rows, then changes; here goes on from the same row,
    under a new token; a value, with --pk, right after that row; a file or a backup goes back to its checkpoint.

    Example: poller reset orders --to 2026-04-07T01:23:45 --pk id=12093

    A file that exists, a name that ends in .json, a backup's name and - (stdin) mean a checkpoint, unless --pk is
    given. If the state document was deleted, a new one is put there; a checkpoint also takes the place of one that
    cannot be read. The lease is then kept for its full time, since a worker may still trust the old one.
    """
    from poller.admin.refusals import WrongArgument, clean
    from poller.admin.resets import Reset
    from poller_cli.output.change_report import ChangeReport

    clean(to, "--to")
    kept = not pk and to not in _PLACES and _is_checkpoint(to)
    if pk and to in _PLACES:
        raise WrongArgument(f"--pk: means nothing beside --to {to}.")
    if rebind and not kept:
        raise WrongArgument("--rebind: is for a checkpoint from a file or a backup; other resets need none.")
    with session.app() as app:
        poller = app.poller(name)
        change: Change
        if to in _PLACES:
            change = Reset(None, token_at_least, here=to == "here", snapshot=to == "snapshot")
        elif kept:
            change = _restore(poller, to, rebind=rebind, token_at_least=token_at_least)
        else:
            change = Reset(_cursor(poller, app.config.pollers[name].source, to, pk, option="--to"), token_at_least)
        return ChangeReport(session, app, consent, name).carry_out(poller, change)


def reset_to_beginning(session: Session, name: NameArgument, token_at_least: _TOKEN = 0, *, consent: Moved) -> int:
    """Deliver every row again, as poller reset --to beginning does.

    Example: poller reset-to-beginning orders --reason "the handler dropped the discount"

    If the state document was deleted, it makes one, and keeps the lease for its full time.
    """
    from poller.admin.resets import Reset
    from poller_cli.output.change_report import ChangeReport

    with session.app() as app:
        return ChangeReport(session, app, consent, name).carry_out(app.poller(name), Reset(None, token_at_least))


def reset_to_cursor(
    session: Session,
    name: NameArgument,
    value: Annotated[
        str, typer.Option("--value", metavar="TEXT", help="The cursor column's value.", show_default=False)
    ],
    pk: _PK = None,
    token_at_least: _TOKEN = 0,
    *,
    consent: Moved,
) -> int:
    """Go on right after the row of this cursor value and key, which need not exist, as poller reset --to VALUE does.

    The database checks the value before anything is written. A time without a zone is in UTC if the column has zones.

    Example: poller reset-to-cursor orders --value 2026-04-07T01:23:45 --pk id=12093

    It says how the column itself writes the value. If the state document was deleted, it makes one, and keeps the
    lease for its full time.
    """
    from poller.admin.refusals import clean
    from poller.admin.resets import Reset
    from poller_cli.output.change_report import ChangeReport

    with session.app() as app:
        poller = app.poller(name)
        clean(value, "--value")
        cursor = _cursor(poller, app.config.pollers[name].source, value, pk, option="--value")
        return ChangeReport(session, app, consent, name).carry_out(poller, Reset(cursor, token_at_least))


def reset_to_checkpoint(
    session: Session,
    name: NameArgument,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A local file, a backup's name in the store, or -: stdin.", show_default=False
        ),
    ],
    rebind: _REBIND = False,
    token_at_least: _TOKEN = 0,
    *,
    consent: Moved,
) -> int:
    """Go back to an exported checkpoint, a backup, or a whole state document; poller reset --to FILE.

    Also puts back a document that was deleted or cannot be read.

    Example: poller reset-to-checkpoint orders backups/shop/orders/20260407T012346_020000Z.json

    If the document was deleted or cannot be read, the lease is kept for its full time, since a worker may still trust
    the old one.
    """
    from poller_cli.output.change_report import ChangeReport

    with session.app() as app:
        poller = app.poller(name)
        change = _restore(poller, file, rebind=rebind, token_at_least=token_at_least)
        return ChangeReport(session, app, consent, name).carry_out(poller, change)


def _is_checkpoint(to: str) -> bool:
    """True if the place is a file or a backup rather than a value of a column."""
    if to == "-" or to.endswith(".json") or _BACKUP.fullmatch(to):
        return True
    try:
        return Path(to).is_file()
    except (OSError, ValueError):  # a value that no file can be called
        return False


def _restore(poller: Poller, file: str, *, rebind: bool, token_at_least: int) -> Restore:
    from poller.admin.restore import Restore, find_checkpoint, read_checkpoint

    if file == "-":
        return Restore(read_checkpoint(poller, _stdin(), location="text of stdin"), rebind, token_at_least)
    return Restore(find_checkpoint(poller, file), rebind, token_at_least)


def _stdin() -> bytes:
    """All of it. The operator would answer there, too: what is read from it is confirmed by an option.

    Raises: WrongArgument.
    """
    from poller.admin.refusals import WrongArgument
    from poller.model.limits import LARGEST_BODY
    from poller_cli.terminal.layout import is_terminal

    if sys.stdin is None or is_terminal(sys.stdin):
        raise WrongArgument("FILE is -, and nothing is piped into stdin.", next_step="Give the name of a file.")
    return sys.stdin.buffer.read(LARGEST_BODY + 1)


def _cursor(poller: Poller, source: SourceConfig, value: str, pk: Sequence[str] | None, *, option: str) -> Cursor:
    """The place that was typed. Raises: WrongArgument, SourceError."""
    from poller.admin.cursors import typed_cursor

    keys = _keys(pk or [], source.pk_columns, source.cursor_column)
    return typed_cursor(poller.source, value, keys, f"--pk {', '.join(pk)[:80]}" if pk else option)


def _keys(pk: Sequence[str], pk_columns: Sequence[str], cursor_column: str) -> Mapping[str, str]:
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
