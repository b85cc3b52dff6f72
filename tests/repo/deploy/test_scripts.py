"""The scripts and units of deploy/: run, with stand-ins for what is not here."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from poller.config import PollerConfig
from tests.repo.deploy.files import DEPLOY, call, tool
from tests.support.services import wait_until

HOOK = DEPLOY / "azure/hooks/check.sh"
WATCH = (DEPLOY / "container-apps/watch.sh").read_text()
UNITS = DEPLOY / "systemd"
ENDPOINTS = {
    f"POLLER_{one}_ENDPOINT": f"https://shop.{one.lower()}.core.windows.net/" for one in ("BLOB", "QUEUE", "TABLE")
}


def stand_in(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def hook(folder: Path, **environment: str) -> tuple[int, str]:
    done = call(["sh", str(HOOK)], env={"PATH": f"{folder}:/usr/bin:/bin", **environment})
    return done.returncode, done.stdout


def test_the_hook_checks_the_deployed_storage_as_who_is_signed_in(tmp_path: Path) -> None:
    stand_in(tmp_path, "poller", 'echo "$@"; env | grep ^AzureWebJobsStorage | sort; exit 1')

    code, printed = hook(tmp_path, **ENDPOINTS, AzureWebJobsStorage__clientId="the-apps", AzureWebJobsStorage="another")

    assert code == 1, "an error that it finds ends the step"
    assert printed.splitlines() == [
        "check",
        *(
            f"AzureWebJobsStorage__{one}ServiceUri=https://shop.{one}.core.windows.net/"
            for one in ("blob", "queue", "table")
        ),
    ]


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"POLLER_CHECK": "skip"}, 0, "POLLER_CHECK is skip"),
        ({"POLLER_PRIVATE_NETWORK": "true"}, 0, "azd env set POLLER_CHECK run"),
        ({}, 2, "azd env refresh"),
    ],
    ids=["skipped", "private", "no-endpoint"],
)
def test_the_hook_says_why_it_does_not_check(given: dict[str, str], code: int, said: str, tmp_path: Path) -> None:
    stand_in(tmp_path, "poller", "echo never")

    found, printed = hook(tmp_path, **given)

    assert (found, said in printed, "never" in printed) == (code, True, False), printed


def test_the_hook_needs_the_command(tmp_path: Path) -> None:
    code, printed = hook(tmp_path)

    assert code == 1
    assert "no command poller here" in printed


def test_both_hooks_read_the_same_settings() -> None:
    """PowerShell is not run: only the names in it are looked at."""
    other = HOOK.with_suffix(".ps1").read_text()

    assert set(re.findall(r"POLLER_(?:CHECK|PRIVATE_NETWORK)\b", HOOK.read_text())) == set(
        re.findall(r"POLLER_(?:CHECK|PRIVATE_NETWORK)\b", other)
    )
    assert "foreach ($name in 'BLOB', 'QUEUE', 'TABLE')" in other


def watched(folder: Path, command: str, **environment: str) -> subprocess.Popen[str]:
    """As a container runs it: the script's text, then its name and the command."""
    text = WATCH.replace("/tmp/poller-alive", str(folder / "alive"))
    return subprocess.Popen(
        ["sh", "-c", text, "watch", sys.executable, "-uc", command],
        cwd=folder,
        env={**os.environ, "WATCH_EVERY": "0.1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_loop_that_stands_still_is_ended(tmp_path: Path) -> None:
    (tmp_path / "alive").touch()
    os.utime(tmp_path / "alive", (time.time() - 61, time.time() - 61))

    with watched(tmp_path, "import time; time.sleep(100)") as process:
        _, said = process.communicate(timeout=60)

    assert process.returncode == 137
    assert "the loop has stood still for 60 s" in said


def test_a_loop_that_goes_round_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "alive").touch()

    with watched(tmp_path, "import time; time.sleep(1); print('done'); raise SystemExit(3)") as process:
        printed, _ = process.communicate(timeout=60)

    assert (process.returncode, printed) == (3, "done\n")


def test_the_end_of_a_container_reaches_the_worker(tmp_path: Path) -> None:
    command = """
import pathlib, signal, sys, threading
finished = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: finished.set())
pathlib.Path("ready").touch()
finished.wait()
print("the batch in hand is finished")
"""
    with watched(tmp_path, command) as process:
        wait_until((tmp_path / "ready").exists)
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=60)

    assert (process.returncode, printed) == (0, "the batch in hand is finished\n")


def unit(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.skipif(tool("systemd-analyze") is None, reason="no systemd on this machine: the units are only read")
def test_systemd_accepts_the_units_and_finds_little_exposed(tmp_path: Path) -> None:
    for path in UNITS.iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace("/opt/poller/bin/poller", "/bin/true"))

    names = sorted(path.name for path in tmp_path.iterdir())
    checked = call(["systemd-analyze", "verify", *(f"./{name}" for name in names)], cwd=tmp_path)
    exposed = call(
        ["systemd-analyze", "security", "--offline=true", "--threshold=15", "./poller.service"], cwd=tmp_path
    )

    assert (checked.returncode, checked.stdout) == (0, "")
    assert exposed.returncode == 0, exposed.stdout


def test_the_service_has_the_time_to_finish_its_batch() -> None:
    service = unit("poller.service")
    (stop,) = service["TimeoutStopSec"]

    assert timedelta(minutes=int(stop.removesuffix("min"))) > PollerConfig.model_fields["tick_timeout"].get_default()
    assert service["KillMode"] == ["mixed"]
    assert service["DynamicUser"] == ["yes"]


@pytest.mark.parametrize(("age", "restarted"), [(0, False), (61, True)], ids=["goes-round", "stands-still"])
def test_the_timer_restarts_only_what_stands_still(age: int, restarted: bool, tmp_path: Path) -> None:
    (command,) = unit("poller-alive.service")["ExecStart"]
    (alive,) = unit("poller-alive.service")["ConditionPathExists"]
    (run,) = unit("poller.service")["ExecStart"]
    assert run.endswith(f"poller run --alive-file {alive}")
    stand_in(tmp_path, "systemctl", 'echo "$@" > called')
    file = tmp_path / "alive"
    file.touch()
    os.utime(file, (time.time() - age, time.time() - age))
    text = command.removeprefix("/bin/sh -c '").removesuffix("'").replace("$$", "$").replace("%%", "%")

    done = call(
        ["/bin/sh", "-c", text.replace(alive, str(file))], cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}
    )

    assert done.returncode == 0, done.stdout
    called = tmp_path / "called"
    assert (called.read_text() if called.exists() else "") == ("try-restart poller.service\n" if restarted else "")
