from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.services import REPOSITORY, unavailable

pytestmark = pytest.mark.soak


def run(*argv: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in argv], cwd=cwd, capture_output=True, text=True, check=False, timeout=240
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an environment that holds the wheel, what it requires, and nothing else of ours."""
    place = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", place, REPOSITORY, cwd=place)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = place.glob("*.whl")
    environment = place / "env"
    made = run(sys.executable, "-m", "venv", environment, cwd=place)
    assert made.returncode == 0, made.stdout + made.stderr
    pip = (environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet")
    done = run(*pip, "install", "-c", REPOSITORY / "requirements.txt", wheel, cwd=place)
    if done.returncode != 0:
        assert "No matching distribution" not in done.stderr or "ConnectionError" in done.stderr, done.stderr
        unavailable(f"the wheel's requirements cannot be installed here: {done.stderr[-1000:]}")
    return environment


@pytest.mark.timeout(300)
def test_the_wheel_installs_two_packages_and_a_working_command(installed: Path, tmp_path: Path) -> None:
    listing = run(
        installed / "bin" / "python",
        "-c",
        "import importlib.metadata as m; print(*{str(f).split('/')[0] for f in m.files('poller')})",
        cwd=tmp_path,
    )
    top = {name for name in listing.stdout.split() if not name.endswith(".dist-info") and name != ".."}
    assert top == {"poller", "poller_cli"}

    shown = run(installed / "bin" / "poller", "--help", cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    for command in ("run", "status", "demo"):
        assert command in shown.stdout


@pytest.mark.timeout(300)
def test_an_installed_wheel_is_typed_and_brings_the_demos_flights(installed: Path, tmp_path: Path) -> None:
    code = (
        "from importlib.resources import files;"
        "import poller;"
        "print(poller.__file__);"
        "print(files('poller').joinpath('py.typed').is_file());"
        "print(files('poller_cli').joinpath('demo_data/flights-2013-01.csv.gz').stat().st_size)"
    )
    origin, typed, size = run(installed / "bin" / "python", "-c", code, cwd=tmp_path).stdout.split()
    assert Path(origin).is_relative_to(installed)
    assert typed == "True"
    assert int(size) == (REPOSITORY / "cli/poller_cli/demo_data/flights-2013-01.csv.gz").stat().st_size
