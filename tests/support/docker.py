"""Servers from Docker, where the machine has no server binaries but a Docker engine."""

from __future__ import annotations

import atexit
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from tests.support.services import Unavailable


def container(name: str, image: str, port: int, env: Mapping[str, str], command: Sequence[str]) -> int:
    """Run `image`, removed at exit, and return the port of 127.0.0.1 under which its `port` is reached."""
    if not shutil.which("docker") or _docker("info").returncode != 0:
        raise Unavailable(f"no {name}: neither its server binaries nor a Docker engine are on this machine")
    variables = [part for key, value in env.items() for part in ("-e", f"{key}={value}")]
    started = _docker("run", "-d", "--rm", "-p", f"127.0.0.1::{port}", *variables, image, *command)
    if started.returncode != 0:
        raise Unavailable(f"no {name}: docker could not run {image}: {started.stderr.strip()}")
    identity = started.stdout.strip()
    atexit.register(_docker, "rm", "-f", "-v", identity)
    published = _docker("port", identity, f"{port}/tcp").stdout
    return int(published.splitlines()[0].rpartition(":")[2])


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
