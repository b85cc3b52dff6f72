"""`poller schema export`: write the JSON Schemas, or check that they are what the models say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poller_cli import exits
from poller_cli.session import Session


def export(
    session: Session,
    directory: Annotated[Path, typer.Option("--directory", metavar="DIR", help="Where to write.")] = Path("schemas"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a file differs.")] = False,
) -> int:
    """Write a JSON Schema for the configuration, the state document and every command's output.

    Example: poller schema export --check
    """
    from poller.admin.refusals import WrongArgument, clean
    from poller_cli.output.models import SchemaExportOutput
    from poller_cli.output.schemas import all_schemas, render
    from poller_cli.terminal.printing import complain, print_json

    clean(str(directory), "--directory")
    different, same = [], []
    for name, schema in all_schemas().items():
        path, body = directory / name, render(schema).encode()
        try:
            if path.is_file() and path.read_bytes() == body:
                same.append(name)
                continue
            different.append(name)
            if not check:
                directory.mkdir(parents=True, exist_ok=True)
                path.write_bytes(body)
        except OSError as error:
            raise WrongArgument(
                f"--directory: {path} cannot be {'read' if check else 'written'}: {error.strerror or error}.",
                next_step="Name a folder of your own.",
            ) from None
    if session.json:
        print_json(SchemaExportOutput(directory=str(directory), written=different, unchanged=same))
    elif not check:
        print("\n".join(f"{directory / name}" for name in [*different, *same]))
    if check and different:
        complain(f"Not up to date in {directory}: {', '.join(different)}. Run: poller schema export")
        return exits.FAILED
    return exits.DONE
