"""The files of deploy/, as the tests here read them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.services import REPOSITORY, unavailable

DEPLOY = REPOSITORY / "deploy"
PROBE = "test $(($(date +%s) - $(stat -c %Y /tmp/poller-alive))) -lt 60"
"""What docs/containers.md shows, and its test runs: whether the loop of `poller run` goes round."""


def documents(text: str) -> list[Any]:
    """What a text of YAML documents holds; `unavailable` where there is no YAML reader."""
    try:
        import yaml
    except ImportError:
        unavailable("PyYAML is not installed: make venv")
    return [one for one in yaml.safe_load_all(text) if one is not None]


def tool(name: str) -> str | None:
    """The path of a program beside this Python, or on the machine."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def call(arguments: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program, and give what it printed, stderr included."""
    return subprocess.run(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60, **options
    )
