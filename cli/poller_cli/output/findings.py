"""Findings as commands print them: without any known shape of a secret, and nothing that could steer a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from poller.admin.latency import CHECK
from poller_cli.output.many import MANY, some, total
from poller_cli.output.models import FindingOutput, PollerCheck
from poller_cli.terminal.layout import columns, wrapped
from poller_cli.terminal.printing import coloured, copyable, one_line

if TYPE_CHECKING:
    from poller.admin.doctor import Checked
    from poller.model.finding import Finding
    from poller_cli.session import Session

_COLOURS = {"ok": "green", "warn": "yellow", "error": "red"}
_HANG = 9
"""Columns before what a finding says: two blanks, its severity, two blanks."""
_ROOM = 40
"""Columns that a message needs beside the name of its check; with fewer it goes on beneath that."""


def finding_output(finding: Finding) -> FindingOutput:
    """As `--json` prints it."""
    return FindingOutput(
        check=finding.check,
        severity=finding.severity,
        message=one_line(finding.message),
        fix=one_line(copyable(finding.fix)) if finding.fix else None,
    )


def check_output(checked: Checked, app_name: str) -> PollerCheck:
    """One poller's findings, as `--json` prints them."""
    findings = checked.findings
    return PollerCheck(
        name=checked.name,
        app_name=app_name,
        errors=sum(one.severity == "error" for one in findings),
        warnings=sum(one.severity == "warn" for one in findings),
        findings=[finding_output(one) for one in findings],
    )


def screens(found: Sequence[PollerCheck], session: Session, *, verbose: bool = False) -> list[str]:
    """A block for each poller with which something is wrong, one line for all that are well, and where there are many
    a line that counts them. `verbose`: a block for each, with all that was looked at."""
    if verbose or len(found) == 1:
        return [screen(one, session, verbose=verbose) for one in found]
    shown = [screen(one, session) for one in found if _is_shown(one)]
    well = [one.name for one in found if not _is_shown(one)]
    if well:
        checks = session.command("check", "-v")
        shown.append(_folded(f"{_named(well)} well ({checks} shows what was looked at)", hang=2))
    if len(found) > MANY:
        words = {one.name: _verdict(one) for one in found}
        shown.append(_folded(total(words), hang=2))
    return shown


def _is_shown(found: PollerCheck) -> bool:
    """True if something is wrong with a poller, or its answer is what was asked for."""
    return bool(found.errors or found.warnings) or any(one.check == CHECK for one in found.findings)


def _named(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{len(names):,} pollers ({some(names)}) are"


def _verdict(found: PollerCheck) -> str:
    """For the whole."""
    return "with errors" if found.errors else "with warnings" if found.warnings else "well"


def screen(found: PollerCheck, session: Session, *, verbose: bool = False) -> str:
    """One poller's findings, for people: what is wrong, and in one line how much is well; `verbose`: each of them."""
    shown = [one for one in found.findings if verbose or one.severity != "ok" or one.check == CHECK]
    width = max((len(one.check) for one in shown), default=0)
    counts = [(found.errors, "error"), (found.warnings, "warning")]
    wrong = ", ".join(f"{count} {word}{'s' if count != 1 else ''}" for count, word in counts if count)
    colour = "red" if found.errors else "yellow" if found.warnings else "green"
    lines = [f"{found.name}  {coloured(wrong or 'all is well', colour, sys.stdout)}"]
    for one in shown:
        lines += _finding(one, width)
    fine = len(found.findings) - len(shown)
    if fine:
        others = "other " if wrong else ""
        all_of_it = session.command("check", found.name, "-v")
        text = f"{fine:,} {others}check{'s' * (fine != 1)} passed ({all_of_it} shows them)"
        lines.append(_folded(f"  {'ok':<5}  {text}", hang=_HANG))
    return "\n".join(lines)


def _finding(one: FindingOutput, width: int) -> list[str]:
    """Its lines, with its check's name in a column where the terminal is wide enough for that."""
    named = f"{one.check:<{width}}  "
    room = columns(sys.stdout)
    hang = _HANG + len(named) if room is None or room >= _HANG + len(named) + _ROOM else _HANG
    first, *more = _folded(f"  {one.severity:<5}  {named}{one.message}", hang=hang).splitlines()
    lines = [first.replace(one.severity, coloured(one.severity, _COLOURS[one.severity], sys.stdout), 1), *more]
    fix = f"{' ' * hang}-> {one.fix}"
    return [*lines, *(wrapped(fix, room, hang=hang + 3, statement=True) if one.fix else ())]


def _folded(text: str, *, hang: int) -> str:
    return "\n".join(wrapped(text, columns(sys.stdout), hang=hang))
