"""The wheel and the source archive: built, compared, and looked into."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

_STRAY = re.compile(r"(^|/)(tests?|benchmarks|__pycache__|\.[^/]+|node_modules)(/|$)|\.py[co]$|\.db$")
_FOREIGN = re.compile(r"(?!poller/|poller_cli/|poller-[\w.]+\.(dist-info|data)/)")


@dataclass(frozen=True)
class Archives:
    """What would be uploaded."""

    wheel: Path
    sdist: Path


class BuildFailed(Exception):
    """A build ended with an error; the text is what it printed."""


def build(root: Path, folder: Path) -> Archives:
    """Build both out of the repository. Raises: BuildFailed."""
    _build(root, folder, "--wheel", "--sdist")
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Archives(wheel, sdist)


def differences(archives: Archives, folder: Path) -> list[str]:
    """In what the wheel that the source archive builds is not the wheel. Raises: BuildFailed."""
    with tarfile.open(archives.sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    _build(unpacked, folder / "again", "--wheel")
    (again,) = (folder / "again").glob("*.whl")
    ours, theirs = _hashes(archives.wheel), _hashes(again)
    return [
        f"{again.name}, built from the source archive, differs in {name}"
        for name in sorted({*ours, *theirs})
        if ours.get(name) != theirs.get(name)
    ]


def strays(names: list[str], *, wheel: bool) -> list[str]:
    """Files of an archive that have no business there.

    Args:
        names: all files, as the archive has them. wheel: of a wheel, which holds the two packages alone.
    """
    inside = [name if wheel else name.partition("/")[2] for name in names]
    allowed = {".gitignore"} if not wheel else set()  # hatchling reads it where it builds from a source archive
    return [
        name
        for name in inside
        if name not in allowed and (_STRAY.search(_without_templates(name)) or (wheel and _FOREIGN.match(name)))
    ]


def names(archive: Path) -> list[str]:
    """Of the files in a wheel or a source archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return [one for one in wheel.namelist() if not one.endswith("/")]
    with tarfile.open(archive) as source:
        return [one.name for one in source.getmembers() if one.isfile()]


def _without_templates(name: str) -> str:
    """Examples for function apps hold files whose names begin with a dot; they belong to the example."""
    return re.sub(r"^(examples|deploy)/((?:[\w-]+/)*)\.", r"\1/\2", name)


def _hashes(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {one.filename: one.CRC for one in archive.infolist()}


def _build(source: Path, folder: Path, *flags: str) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", *flags, "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildFailed(done.stdout + done.stderr)
