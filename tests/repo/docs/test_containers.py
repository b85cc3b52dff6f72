"""docs/containers.md: its probe tells a process that is alive from one that is not, and its numbers are the code's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

from poller.config import RunOptions
from poller.worker import AliveFile, alive, replicas
from poller.worker.loops import LEAST_LATE, MOST_LATE
from poller_cli.output import events
from tests.repo.docs.blocks import ROOT, blocks

PAGE = "docs/containers.md"
FILE = "/tmp/poller-alive"


def test_the_probe_as_shown_tells_young_from_old(tmp_path: Path) -> None:
    probe = blocks(PAGE, "sh")[0]
    path = tmp_path / "alive"
    command = probe.text.replace(FILE, str(path))
    assert str(path) in command

    def fails() -> bool:
        return subprocess.run(["sh", "-c", command], check=False, capture_output=True).returncode != 0

    assert fails(), "no file: the process has not begun, or has ended"
    AliveFile(path)
    assert not fails()
    os.utime(path, (time.time() - 61, time.time() - 61))
    assert fails()


def test_the_manifest_probes_with_that_command() -> None:
    probe, (manifest,) = blocks(PAGE, "sh")[0], blocks(PAGE, "yaml")
    (command,) = re.findall(r"command: (\[.*\])", manifest.text)
    (arguments,) = re.findall(r"args: (\[.*\])", manifest.text)
    assert json.loads(command) == ["sh", "-c", probe.text.strip()]
    assert json.loads(arguments) == ["run", "--alive-file", FILE]


def test_the_pages_numbers_are_the_codes() -> None:
    text = re.sub(r"\s+", " ", (ROOT / PAGE).read_text())
    assert f"`run.slice` ({RunOptions().slice.total_seconds():.0f} seconds)" in text
    assert f"a process of {replicas.FEWEST_POLLERS} pollers or more" in text
    assert f"make {replicas.FEWEST_LOOKS:.0f} looks a minute" in text
    assert f"renewed every {replicas.RENEW:.0f} seconds" in text
    assert f"After {replicas.LATE:.0f} seconds without that" in text
    assert f"after {replicas.DEAD:.0f} seconds the next process that sees it" in text
    assert f"at least {LEAST_LATE:.0f} seconds, at most a minute" in text
    assert MOST_LATE == 60
    assert f"replaces that file every {alive.EVERY:.0f} seconds" in text
    assert f"with more than {events.MANY} pollers" in text
