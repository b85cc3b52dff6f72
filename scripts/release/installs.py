"""An archive installed into an empty environment, and used there, with each Python of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST = (3, 11)
_LIMIT = 600
"""Seconds for one step."""


def pythons() -> dict[str, str]:
    """`{version: executable}` of every Python on the PATH, of pyenv, and in `POLLER_PYTHONS`, new enough and usable."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [
        *os.environ.get("POLLER_PYTHONS", "").split(os.pathsep),
        *(shutil.which(f"python3.{minor}") or "" for minor in range(OLDEST[1], OLDEST[1] + 8)),
        *(shutil.which(name) or "" for name in ("python3", "python")),
        *map(str, sorted(pyenv.glob("3.1[1-9].*/bin/python3"))),
    ]
    found: dict[str, str] = {}
    for one in filter(None, candidates):
        code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([one, "-c", code], capture_output=True, text=True, check=False)
        version = done.stdout.strip()
        if done.returncode == 0 and tuple(map(int, version.split("."))) >= OLDEST:
            found.setdefault(version, one)
    return dict(sorted(found.items(), key=lambda item: tuple(map(int, item[0].split(".")))))


def readme_example(readme: str) -> str:
    """The first block of Python in README.md."""
    found = re.search(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError("README.md has no block of Python.")
    return found[1]


def problems(archive: Path, python: str, folder: Path, *, version: str, example: str, constraints: Path) -> list[str]:
    """What does not work where only this archive and what it requires is installed.

    Args:
        archive: a wheel or a source archive. python: an executable. folder: for the environment; must not exist.
        version: what `poller --version` must print. example: code that must run and print something.
        constraints: a file of versions.
    """
    made = _run([python, "-m", "venv", str(folder)], Path.cwd())
    if made.returncode != 0:
        return [f"no environment: {made.stderr}"]
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    done = _run([*pip, "--constraint", str(constraints), str(archive)], Path.cwd())
    if done.returncode != 0:
        return [f"cannot be installed: {done.stderr}"]
    work = folder / "work"
    work.mkdir()
    poller, found = str(folder / "bin" / "poller"), []
    said = _run([poller, "--version"], work)
    if (said.returncode, said.stdout.split()[-1:]) != (0, [version]):
        found.append(f"poller --version: {said.stdout}{said.stderr}")
    said = _run([poller, "--help"], work)
    if said.returncode != 0 or said.stderr or "run" not in said.stdout:
        found.append(f"poller --help: {said.stdout}{said.stderr}")
    said = _run([str(folder / "bin" / "python"), "-c", example], work)
    if said.returncode != 0 or not said.stdout.strip():
        found.append(f"README.md's example: {said.stdout}{said.stderr}")
    if not (folder / "share" / "man" / "man1" / "poller.1").is_file():
        found.append("the manual pages are not there")
    return found


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """With no package of ours on Python's path."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=_LIMIT
    )
