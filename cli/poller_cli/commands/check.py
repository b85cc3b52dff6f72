"""`poller check`: the doctor. Each finding with the statement that fixes it. Reads only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from poller_cli import exits
from poller_cli.session import NamesArgument, Session

if TYPE_CHECKING:
    from poller_cli.output.check_models import PollerCheck

_COLOURS = {"ok": "green", "warn": "yellow", "error": "red"}


def check(session: Session, names: NamesArgument = None) -> int:
    """Diagnose storage, source and configuration, and suggest fixes. Changes nothing.

    Storage, state document, privileges, columns, key, index, plan, NULLs, time zone, clocks, bound, handler, schedule.
    Exits 1 while an error stands, 4 where the checkpoint belongs to another source.

    Example: poller check orders
    """
    from poller_cli.checkup import examine
    from poller_cli.output.check_models import CheckOutput, FindingOutput, PollerCheck
    from poller_cli.output.models import as_json
    from poller_cli.terminal.printing import claim_stdout, one_line, print_json

    out = claim_stdout() if session.json else sys.stdout  # importing a handler may print
    with session.app() as app:
        chosen = list(dict.fromkeys(app.known(name) for name in names)) if names else list(app.pollers)
        examined = [examine(app, name) for name in chosen]
    output = CheckOutput(
        ok=all(one.code == exits.DONE for one in examined),
        pollers=[
            PollerCheck(
                name=one.name,
                app_name=one.app_name,
                errors=sum(f.severity == "error" for f in one.findings),
                warnings=sum(f.severity == "warn" for f in one.findings),
                findings=[
                    FindingOutput(
                        check=f.check,
                        severity=f.severity,
                        message=one_line(f.message),
                        fix=one_line(f.fix) if f.fix else None,
                    )
                    for f in one.findings
                ],
            )
            for one in examined
        ],
    )
    if session.json:
        print_json(as_json(output), out)
    else:
        print("\n\n".join(_screen(one) for one in output.pollers))
    return exits.worst(one.code for one in examined)


def _screen(found: PollerCheck) -> str:
    from poller_cli.terminal.printing import coloured, folded

    width = max((len(f.check) for f in found.findings), default=0)
    lines = [found.name]
    for f in found.findings:
        word = coloured(f"{f.severity:<5}", _COLOURS[f.severity], sys.stdout)
        hang = 11 + width
        message = folded(" " * hang + f.message, hang=hang, stream=sys.stdout)
        lines.append(f"  {word}  {f.check:<{width}}  {message[hang:]}")
        if f.fix:
            lines.append(f"  {'':5}  {'':{width}}  -> {f.fix}")
    bad, doubtful = found.errors, found.warnings
    if not bad and not doubtful:
        lines.append("  all is well")
    else:
        told = [f"{n} {word}{'s' if n != 1 else ''}" for n, word in ((bad, "error"), (doubtful, "warning")) if n]
        lines.append(f"  {', '.join(told)}")
    return "\n".join(lines)
