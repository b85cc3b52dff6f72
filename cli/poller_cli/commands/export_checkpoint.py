"""`poller export-checkpoint`: a checkpoint as JSON, for another place or another day."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poller_cli import exits
from poller_cli.session import NamedArgument, Session


def export_checkpoint(
    session: Session,
    name: NamedArgument,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Where to write it; default, and -: stdout.", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE if there is one.")] = False,
) -> int:
    """Write a poller's checkpoint as JSON. Changes nothing in the store.

    Example: poller export-checkpoint orders before-deploy.json
    """
    from poller.admin import export
    from poller_cli.terminal.printing import json_text, print_json, printable

    with session.app() as app:
        exported = export.export_checkpoint(app.one(name))
    if file == Path("-"):
        file = None
    if file is not None:
        _write(file, json_text(exported) + "\n", overwrite=overwrite)
    if file is None or session.json:
        print_json(exported)
    else:
        print(printable(f"{name}: the checkpoint at {exported.cursor or 'the beginning'} was written to {file}."))
    return exits.DONE


def _write(file: Path, text: str, *, overwrite: bool) -> None:
    """Whole or not at all; a device or a pipe is written to, never replaced. Raises: Refused, where the file exists;
    WrongArgument, where it cannot be written."""
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
