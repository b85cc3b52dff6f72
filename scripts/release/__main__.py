"""`python -m scripts.release [--quick] [--tag vX.Y.Z]`: all that must hold before a release, a line for each check.

`--quick` leaves out the installations. Nothing is uploaded, and nothing is written but below a temporary folder.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scripts.release import archives, installs, licences, texts

ROOT = Path(__file__).resolve().parents[2]


class Report:
    """Prints each check as it ends."""

    def __init__(self) -> None:
        self.failed = False

    def add(self, what: str, problems: Iterable[str]) -> None:
        """One check and what it found."""
        found = list(problems)
        self.failed |= bool(found)
        print(f"{'FAILED' if found else 'ok':6} {what}", flush=True)
        for one in found:
            print(f"       {one.strip()}", flush=True)


def check(root: Path, folder: Path, report: Report, *, tag: str = "", quick: bool = False) -> None:
    """All checks.

    Args:
        root: the repository. folder: an empty one to work in. tag: that the release will have.
        quick: leaves out the installations.
    """
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    report.add("version, change log, tag", texts.version_problems(project["version"], changelog, tag))
    report.add(f"licences of {len(licences.closure('poller'))} dependencies", licences.problems())
    try:
        made = archives.build(root, folder / "dist")
        report.add("the source archive builds the same wheel", archives.differences(made, folder / "again"))
    except archives.BuildFailed as error:
        report.add("wheel and source archive are built", [str(error)])
        return
    files = [made.wheel, made.sdist]
    for one in files:
        report.add(f"what is in {one.name}", archives.strays(archives.names(one), wheel=one == made.wheel))
    with zipfile.ZipFile(made.wheel) as wheel:
        (metadata,) = [wheel.read(name).decode() for name in wheel.namelist() if name.endswith("/METADATA")]
    report.add("the long description", texts.description_problems(metadata))
    report.add("twine check --strict", texts.twine_problems(files))
    if quick:
        return
    example = installs.readme_example((root / "README.md").read_text(encoding="utf-8"))
    constraints = root / "requirements.txt"
    pythons = installs.pythons()
    report.add(
        f"Pythons: {', '.join(pythons)}", [] if pythons else ["None is new enough: name some in POLLER_PYTHONS."]
    )
    for version, python in pythons.items():
        for one in files:
            found = installs.problems(
                one,
                python,
                folder / f"{version}{one.suffix}",
                version=project["version"],
                example=example,
                constraints=constraints,
            )
            report.add(f"{one.name} in an empty environment of Python {version}", found)


def main(arguments: list[str]) -> int:
    """Check; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.release", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the installations")
    parser.add_argument("--tag", default="", help="the tag of the release that is made now, such as v0.1.0")
    options = parser.parse_args(arguments)
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        check(ROOT, Path(folder), report, tag=options.tag, quick=options.quick)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
