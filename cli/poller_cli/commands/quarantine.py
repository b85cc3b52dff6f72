"""`poller quarantine`: rows that failed and wait, and what becomes of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from poller_cli import exits
from poller_cli.commands.options import Delivered, Fenced
from poller_cli.session import NamedArgument, Session

_ROW = typer.Argument(metavar="ROW", help="A row's id, or how it begins.", show_default=False)
_ID = typer.Option("--id", metavar="ID", help="The same as ROW.", show_default=False)
_IDS = typer.Option("--id", metavar="ID", help="The same as ROW. May be repeated.")
_KEY = typer.Option(
    "--key", metavar="COLUMN=VALUE", help="The rows with this value in a column of the ordering key. May be repeated."
)
_ALL = typer.Option("--all", help="Every row that waits.")


def list_(session: Session, name: NamedArgument) -> int:
    """Show the rows that are set aside, and those that wait for a person. Takes no lease, changes nothing.

    A row set aside is tried again automatically, and rows of other ordering keys go on. A row that failed too often,
    or that the handler rejected, waits for a replay or a discard. What the rows hold is not shown.

    Example: poller quarantine list orders
    """
    from poller_cli.output.quarantine_report import listed

    with session.app() as app:
        output = app.one(name).quarantine.list()
    session.show(output, lambda: listed(output, session))
    return exits.DONE


def show(
    session: Session,
    name: NamedArgument,
    row: Annotated[str | None, _ROW] = None,
    id_: Annotated[str | None, _ID] = None,
) -> int:
    """Show one row with its content, which may be personal data, and what happened to it.

    Also a row that waits no longer, as long as its record is kept (quarantine_ttl). Takes no lease, changes nothing.

    Example: poller quarantine show orders 5d41
    """
    from poller.admin.refusals import WrongArgument
    from poller_cli.output.quarantine_report import shown

    wanted = row or id_
    if wanted is None or (row and id_):
        raise WrongArgument("ROW: say which row.", next_step=f"Which rows wait: poller quarantine list {name}")
    with session.app() as app:
        output = app.one(name).quarantine.show(wanted)
    session.show(output, lambda: shown(output, session))
    return exits.DONE


def replay(
    session: Session,
    name: NamedArgument,
    rows: Annotated[list[str] | None, _ROW] = None,
    ids: Annotated[list[str] | None, _IDS] = None,
    key: Annotated[list[str] | None, _KEY] = None,
    every: Annotated[bool, _ALL] = False,
    current: Annotated[bool, typer.Option("--current", help="As the table has it now.")] = False,
    recorded: Annotated[bool, typer.Option("--recorded", help="As it was recorded, though it changed since.")] = False,
    as_it_was: Annotated[bool, typer.Option("--as-it-was", hidden=True)] = False,
    *,
    consent: Delivered,
) -> int:
    """Hand rows that wait to the handler now, one per call, the oldest of each ordering key first.

    A row is handed over as it was recorded. If the table no longer has that version, --current or --recorded must say
    which is meant.

    Example: poller quarantine replay orders --all --reason "the handler was fixed"

    It takes the lease, and the checkpoint does not move. A row that fails still waits, and the later ones of its
    ordering key are not handed over.
    """
    from poller.admin.quarantine.choice import Choice
    from poller.admin.quarantine.replay import replay as hand_over
    from poller.admin.quarantine.replay import version_of
    from poller_cli.output import quarantine_report
    from poller_cli.output.change_report import ChangeReport
    from poller_cli.terminal.confirmation import confirm
    from poller_cli.terminal.printing import claim_stdout

    version = version_of(current=current, recorded=recorded or as_it_was)
    choice = Choice(ids=(*(rows or ()), *(ids or ())), key=_pairs(key or [], "--key"), all=every)
    out = claim_stdout() if session.json else sys.stdout
    with session.app() as app:
        report = ChangeReport(session, app, consent, name)
        poller = app.one(name)
        output = hand_over(poller, choice, version, replace(report.request, dry_run=True))
        if output.rows and not consent.dry_run:
            if report.shows:
                print(quarantine_report.to_replay(output), file=sys.stderr if session.json else out, flush=True)
            confirm(consent, name, "quarantine replay", typed=False)
            agreed = Choice(ids=[row.id for row in output.rows])
            output = hand_over(poller, agreed, version, report.request)
    session.show(output, lambda: quarantine_report.replayed(output), out)
    return quarantine_report.code_of(output)


def discard(
    session: Session,
    name: NamedArgument,
    rows: Annotated[list[str] | None, _ROW] = None,
    ids: Annotated[list[str] | None, _IDS] = None,
    key: Annotated[list[str] | None, _KEY] = None,
    every: Annotated[bool, _ALL] = False,
    *,
    consent: Fenced,
) -> int:
    """Give rows up: they are never delivered. Rows that wait behind them are then tried automatically.

    The record of each row stays for quarantine_ttl, and says which operator gave it up and why.

    Example: poller quarantine discard orders 5d41 --reason "a test order"
    """
    from poller.admin.quarantine.choice import Choice
    from poller.admin.quarantine.discard import Discard
    from poller_cli.output.change_report import ChangeReport

    choice = Choice(ids=(*(rows or ()), *(ids or ())), key=_pairs(key or [], "--key"), all=every)
    with session.app() as app:
        return ChangeReport(session, app, consent, name).carry_out(app.one(name), Discard(choice))


def add(
    session: Session,
    name: NamedArgument,
    pk: Annotated[
        list[str],
        typer.Option(
            "--pk", metavar="COLUMN=VALUE", help="The row's key; once for each key column.", show_default=False
        ),
    ],
    *,
    consent: Fenced,
) -> int:
    """Set a row aside by hand: a way past a row that fails, whatever on_poison says, instead of a reset.

    The row must lie ahead of the checkpoint. The next tick goes on without it; later it is tried again automatically,
    and later rows of its ordering key wait behind it.

    Example: poller quarantine add orders --pk id=12093 --reason "blocks the night's orders"

    It is set aside as the table has it now, and is tried again when the checkpoint has passed it.
    """
    from poller.admin.quarantine.add import Add
    from poller_cli.output.change_report import ChangeReport

    key = _pairs(pk, "--pk")
    with session.app() as app:
        return ChangeReport(session, app, consent, name).carry_out(app.one(name), Add(key))


def _pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """`COLUMN=VALUE`, by column, each once. Raises: WrongArgument."""
    from poller.admin.refusals import WrongArgument, clean

    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = clean(text, option).partition("=")
        if not equals:
            raise WrongArgument(f"{option} {text[:80]}: must be COLUMN=VALUE.", next_step=f"Write {option} id=12093.")
        if name in found:
            raise WrongArgument(f"{option}: {name[:80]} is given twice.")
        found[name] = value
    return found
