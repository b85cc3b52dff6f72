"""Write deploy/extras/NAME.txt: what an extra adds to the image (`docker build --build-arg EXTRAS=NAME`), each file by
its hash.

Run as `python scripts/pins_extras.py`, after `python -m scripts.pins --hashes`. The versions are those of
requirements-dev.txt, with which the tests ran. Named are the wheels for the image's Python on Linux, x86_64 and
aarch64; nothing is built from source there. No address is written. A package is one line, so that one which two extras
need is easily named once.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "deploy" / "extras"
MACHINES = ("x86_64", "aarch64")
GLIBC = ("2_34", "2_28", "2_27", "2_26", "2_17")
"""Debian's is newer than any of these; a wheel for an older one runs there too."""


def python() -> str:
    """The version of the image's Python, such as 3.13."""
    (found,) = re.findall(r"^ARG BASE=python:(\d+\.\d+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    return str(found)


def in_every_image() -> set[str]:
    """The packages of requirements-hashes.txt."""
    return set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements-hashes.txt").read_text(), re.MULTILINE))


def wheels(requirements: list[str], machine: str) -> dict[str, tuple[str, str]]:
    """`{package: (version, hash)}` of all that these requirements need on such a machine."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--dry-run"),
                *("--ignore-installed", "--target", folder, "--report", str(report)),
                *("--only-binary", ":all:", "--python-version", python(), "--implementation", "cp"),
                *(f"--platform=manylinux_{glibc}_{machine}" for glibc in GLIBC),
                *("--constraint", "requirements-dev.txt", *requirements),
            ],
            cwd=ROOT,
            check=True,
        )
        installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {
        re.sub(r"[-_.]+", "-", one["metadata"]["name"]).lower(): (
            one["metadata"]["version"],
            one["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for one in installed
    }


def main() -> None:
    """Write a file for every extra that brings something which the image does not have."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    present = in_every_image()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for extra, requirements in extras.items():
        needed = [wheels(requirements, machine) for machine in MACHINES]
        lines = []
        for name in sorted({name for found in needed for name in found} - present):
            (version,) = {found[name][0] for found in needed}
            hashes = sorted({found[name][1] for found in needed})
            lines.append(" ".join([f"{name}=={version}", *(f"--hash=sha256:{one}" for one in hashes)]) + "\n")
        if lines:
            (FOLDER / f"{extra}.txt").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
