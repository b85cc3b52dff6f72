"""The sessions of docs/incidents.md: commands and what they print, run in order and compared in shape.

A line `...` stands for any lines, and `...` at the end of a line for its rest. What differs from run to run (moments of
2026-04-09, identifiers, lengths of time, a folder) stands for what is there instead; what a command printed in such a
place takes it in the commands that follow, as a reader would copy it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_VOLATILE = re.compile(
    r"""
      (?P<backup>backups/shop/\w+/[\w-]+\.json)
    | (?P<backfill>\w+-backfill-[0-9a-f]{8})
    | (?P<owner>shop/[\w.-]+/[0-9a-f]{8})
    | (?P<batch>batch_\d{8}_\d{6}_\d{4})
    | (?P<moment>2026-04-09[ T][\d:.]+Z?)
    | (?P<long>\d+[ ]d(?:[ ]\d+[ ]h)?\b|\d+[ ]h(?:[ ]\d+[ ]min)?\b|\d+[ ]min\b|\d+(?:\.\d+)?[ ]m?s\b)
    | (?P<seconds>(?<=_seconds=)[\d.]+)
    | (?P<hash>\b(?=[0-9a-f]*\d)[0-9a-f]{8}\b)
    | (?P<folder>/srv/shop\b)
    """,
    re.VERBOSE,
)
_ACTUAL = {
    "backup": r"backups/shop/\w+/[\w-]+\.json",
    "backfill": r"\w+-backfill-[0-9a-f]{8}",
    "owner": r"shop/[\w.-]+/[0-9a-f]{8}",
    "batch": r"batch_\d{8}_\d{6}_\d{4}",
    "moment": r"\d{4}-\d\d-\d\d[ T][\d:.]+Z?",
    "long": r"\d+ d(?: \d+ h)?|\d+ h(?: \d+ min)?|\d+ min|\d+(?:\.\d+)? m?s",
    "seconds": r"[\d.]+",
    "hash": r"[0-9a-f]{8}",
    "folder": r"/[^ ]*?",
}


@dataclass
class Step:
    """One command and the lines that the page shows below it."""

    command: str
    shown: list[str] = field(default_factory=list)


def steps(block: str) -> list[Step]:
    """The commands of a block, in order."""
    found: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:]))
        else:
            found[-1].shown.append(line)
    return found


class Session:
    """What was copied from the output so far."""

    def __init__(self) -> None:
        self._copied: dict[str, str] = {}

    def command(self, step: Step) -> str:
        """The command, with what a reader would have copied into it."""
        text = step.command
        for shown, actual in self._copied.items():
            text = text.replace(shown, actual)
        return text

    def compare(self, step: Step, printed: str) -> str | None:
        """None where the output has the shape that is shown; else where they part."""
        actual = [line.rstrip() for line in printed.splitlines()]
        position, free = 0, False
        for line in step.shown:
            if line == "...":
                free = True
                continue
            pattern, named = self._pattern(line.rstrip())
            matches = [(i, pattern.fullmatch(actual[i])) for i in range(position, len(actual))]
            hit = next(((i, m) for i, m in matches if m), None) if free else matches[0] if matches else None
            if hit is None or hit[1] is None:
                there = actual[position] if position < len(actual) else "(nothing more)"
                return f"$ {step.command}\nshown:   {line}\nprinted: {there}\n\n{printed}"
            for name, text in named.items():
                self._copied[text] = hit[1][name]
            position, free = hit[0] + 1, False
        if not free and position < len(actual):
            return f"$ {step.command}\nprinted, but not shown: {actual[position]}\n\n{printed}"
        return None

    def _pattern(self, line: str) -> tuple[re.Pattern[str], dict[str, str]]:
        rest = ".*" if line.endswith(" ...") else ""
        line = line.removesuffix("...") if rest else line
        parts, named, end = [], {}, 0
        for number, found in enumerate(_VOLATILE.finditer(line)):
            kind = found.lastgroup or ""
            parts.append(re.escape(line[end : found.start()]) + f"(?P<{kind}{number}>{_ACTUAL[kind]})")
            if kind in ("backup", "backfill"):
                named[f"{kind}{number}"] = found[0]
            end = found.end()
        return re.compile("".join(parts) + re.escape(line[end:]) + rest), named
