"""`poller checkpoint`: a checkpoint as JSON, for another place or day; or another poller begins where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poller_cli import exits
from poller_cli.commands.options import Moved, NameArgument
from poller_cli.session import NamedArgument, Session


def export(
    session: Session,
    name: NamedArgument,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Where to write it; default, and -: stdout.", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE if there is one.")] = False,
) -> int:
    """Write a poller's checkpoint as JSON. Changes nothing in the store.

    Example: poller checkpoint export orders before-deploy.json
    """
    from poller.admin.export import export_checkpoint
    from poller_cli.terminal.printing import json_text, print_json, printable

    with session.app() as app:
        exported = export_checkpoint(app.one(name))
    if file == Path("-"):
        file = None
    if file is not None:
        _write(file, json_text(exported) + "\n", overwrite=overwrite)
    if file is None or session.json:
        print_json(exported)
    else:
        print(printable(f"{name}: the checkpoint at {exported.cursor or 'the beginning'} was written to {file}."))
    return exits.DONE


def clone(
    session: Session,
    name: NameArgument,
    new_name: Annotated[
        str, typer.Argument(metavar="NEW_NAME", help="The other poller; need not be configured.", show_default=False)
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also if NEW_NAME has a checkpoint. Its token stays, and grows.")
    ] = False,
    *,
    consent: Moved,
) -> int:
    """Copy a poller's checkpoint, with the source it belongs to, to another poller of the same app.

    NEW_NAME's document is what is changed, so that is the name to type or to confirm.

    Example: poller checkpoint clone orders orders-v2
    """
    from poller.admin.clone import clone_of, with_configuration
    from poller.admin.refusals import Refused
    from poller_cli.output.change_report import ChangeReport

    with session.app() as app:
        new = app.poller(new_name) if new_name in app.config.pollers else None
        if new is None and app.backfills.named(new_name):
            raise Refused(f"{new_name} is a backfill's name; nothing was changed.", next_step="Name another.")
        report = ChangeReport(session, app, consent, new_name)
        on, change = clone_of(app.poller(name), new_name, report.request, new=new, file=app.path, overwrite=overwrite)
        return report.report(with_configuration(report.made(on, change), change))


def _write(file: Path, text: str, *, overwrite: bool) -> None:
    """Write a file whole or not at all; a device or a pipe is written to, never replaced. Raises: Refused, if the file
    exists; WrongArgument, if it cannot be written."""
    from poller.admin.refusals import Refused, WrongArgument
    from poller.files import write_whole

    try:
        if file.exists() and not (file.is_file() or file.is_dir()):
            with file.open("w", encoding="utf-8") as out:
                out.write(text)
            return
        write_whole(file, text, overwrite=overwrite)
    except FileExistsError:
        raise Refused(f"The file {file} exists already.", next_step="Give another name, or add --overwrite.") from None
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or "invalid file name"
        raise WrongArgument(f"The file {file} cannot be written: {why}.") from None
