"""Running SPIN: from a model and its macros to a verdict.

`spin -a` writes a C program that searches every reachable state of the model; it is compiled and run in a directory of
its own. Nothing is hashed away or sampled: a verdict counts only for a search that says of itself that it was complete.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.services import Unavailable

MODEL = Path(__file__).resolve().parents[3] / "proof" / "lease.pml"
MEMORY_MB = 3000
"""No search may take more; one that would is no verdict."""

# No partial order reduction: the steps share everything, so it would save nothing, and so nothing rests on it.
COMPILED = ("-w", "-DNOREDUCE", f"-DMEMLIM={MEMORY_MB}")
DEPTH = "-m10000"
TRUNCATED = ("max search depth too small", "Search not completed", "out of memory", "reached -DMEMLIM", "hash-compact")


class Incomplete(Exception):
    """The search ended before every state was seen; its text is what SPIN wrote."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a search found.

    Attributes:
        broken: the name of the law that was broken, "liveness" for a run that goes on for ever without what must come;
            None where every state was seen and no law was broken.
        states: how many different states were seen.
        unreached: the model's lines that no run ever came to.
        output: SPIN's own words.
    """

    broken: str | None
    states: int
    unreached: tuple[str, ...]
    output: str


def tools() -> tuple[str, str]:
    """The programs `spin` and a C compiler. Raises: Unavailable."""
    spin = shutil.which("spin")
    compiler = next((found for name in ("gcc", "cc", "clang") if (found := shutil.which(name))), None)
    if spin is None or compiler is None:
        raise Unavailable("SPIN and a C compiler are needed; on Debian: apt-get install spin gcc")
    said = subprocess.run([spin, "-V"], capture_output=True, text=True, check=False).stdout
    if not said.startswith("Spin Version"):
        raise Unavailable(f"{spin} is another program of that name; on Debian: apt-get install spin gcc")
    return spin, compiler


def search(directory: Path, *macros: str) -> Verdict:
    """Every state, depth first, of a model under these macros. Raises: Unavailable, Incomplete."""
    return _verdict(directory, macros, ("-O2", "-DSAFETY", "-DNOFAIR"), (DEPTH, "-w24"))


def shortest(directory: Path, *macros: str) -> Verdict:
    """Breadth first, up to the first broken law: by the shortest way there. Raises: Unavailable, Incomplete."""
    return _verdict(directory, macros, ("-O0", "-DSAFETY", "-DNOFAIR", "-DBFS"), ("-w20",))


def endless(directory: Path, *macros: str) -> Verdict:
    """Every weakly fair run, for one that goes on for ever without what must come. Raises: Unavailable, Incomplete."""
    return _verdict(directory, ("LIVE", *macros), ("-O2", "-DNFAIR=5"), ("-a", "-f", DEPTH, "-w22"))


def _verdict(directory: Path, macros: tuple[str, ...], options: tuple[str, ...], how: tuple[str, ...]) -> Verdict:
    spin, compiler = tools()
    _run(directory, spin, "-a", *(f"-D{macro}" for macro in macros), str(MODEL))
    _run(directory, compiler, *COMPILED, *options, "-o", "pan", "pan.c")
    output = _run(directory, "./pan", *how)
    counted = re.search(r"^ *([0-9.e+]+) states, stored", output, re.MULTILINE)
    errors = re.search(r"errors: (\d+)$", output, re.MULTILINE)
    if counted is None or errors is None:
        raise Incomplete(output)
    states = int(float(counted[1]))
    if errors[1] != "0":
        return Verdict(_law(output), states, (), output)
    if "Full statespace search for:" not in output or any(sign in output for sign in TRUNCATED):
        raise Incomplete(output)
    unreached = re.findall(r"^\t(\S+:\d+, state \d+, .*)$", output, re.MULTILINE)
    return Verdict(None, states, tuple(line for line in unreached if '"-end-"' not in line), output)


def _law(output: str) -> str:
    broken = re.search(r"assertion violated .*\b(law_\w+)\)", output)
    if broken:
        return broken[1]
    return "liveness" if "acceptance cycle" in output else output


def _run(directory: Path, *command: str) -> str:
    """What a program writes. `pan` ends with 0 whatever it finds."""
    ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise Incomplete(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout + ended.stderr
