"""Compile requirements.txt (a deployment) and requirements-dev.txt (everything) from pyproject.toml.

Run as `make pins`, on the oldest Python supported, with uv installed, which reads what a package needs without fetching
the package. Neither index addresses nor hashes are written: the files must serve a company's mirror as well as the
public index. Versions already pinned stay; `--upgrade` takes the newest. The index is that of UV_DEFAULT_INDEX, else
the one that pip is configured for.

`--hashes` writes requirements-hashes.txt instead: the same versions for the image's Python, with the hash of every file
that the index has of them, and of what builds the wheel. It is run after the others. A hash names no address, but a
mirror may lack files that the public index has.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from scripts.pins_extras import python as image_python

ROOT = Path(__file__).resolve().parents[1]
DEPLOYMENT = ["--extra", "postgres", "--extra", "mysql", "pyproject.toml"]
HASHES = "requirements-hashes.txt"
EVERYTHING = ["--all-extras", "pyproject.toml", "requirements-dev.in"]
# uv resolves for one Python. Here the newer ones need another version: azure-functions 1.x ends with Python 3.12, and
# 2.x begins with 3.13.
NEWER_PYTHON = {"azure-functions": ("3.13", "2.3.0")}


def index() -> dict[str, str]:
    """The environment in which uv asks the index that pip is configured for."""
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    address = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL") or found
    return {**os.environ, "UV_DEFAULT_INDEX": address} if address else dict(os.environ)


def compiled(target: str, arguments: list[str], *, more: str = "") -> Path:
    """Write one requirements file; `more`: requirements beside those of the files."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--output-file", target]
    subprocess.run(
        [*command, *arguments, *(["-"] if more else [])], cwd=ROOT, check=True, env=index(), input=more, text=True
    )
    return ROOT / target


def compile_file(target: str, arguments: list[str], flags: list[str]) -> None:
    """Write a file without hashes."""
    path = compiled(target, ["--annotation-style", "line", "--python", sys.executable, *flags, *arguments])
    text = path.read_text(encoding="utf-8")
    for name, (python, version) in NEWER_PYTHON.items():
        text = re.sub(
            rf"^{name}==(\S+)\s*?(  #.*)?$",
            rf'{name}==\1 ; python_version < "{python}"\2\n{name}=={version} ; python_version >= "{python}"',
            text,
            flags=re.MULTILINE,
        )
    path.write_text(text, encoding="utf-8")


def compile_hashes() -> None:
    """Write requirements-hashes.txt for the image's Python."""
    builds = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    flags = [
        "--no-annotate",
        "--generate-hashes",
        "--python-version",
        image_python(),
        "--constraint",
        "requirements.txt",
    ]
    compiled(HASHES, [*flags, *DEPLOYMENT], more="\n".join(builds))


if __name__ == "__main__" and "--hashes" in sys.argv[1:]:
    compile_hashes()
elif __name__ == "__main__":
    compile_file("requirements.txt", DEPLOYMENT, sys.argv[1:])
    compile_file("requirements-dev.txt", EVERYTHING, sys.argv[1:])
