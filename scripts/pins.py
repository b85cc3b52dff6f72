"""Compile requirements.txt (a deployment) and requirements-dev.txt (everything) from pyproject.toml.

Run as `make pins`, on the oldest Python supported, with pip-tools installed. Neither index addresses nor hashes are
written: the files must serve a company's mirror as well as the public index. Versions already pinned stay;
`--upgrade` takes the newest.

`--hashes` writes requirements-hashes.txt instead: the same versions for the image, with the hash of every file that the
configured index has of them, and of what builds the wheel. It is run with the image's Python, after the
others; that takes ten minutes. A hash names no address, but a mirror may lack files that the public index has.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEPLOYMENT = ["--extra", "postgres", "--extra", "mysql", "pyproject.toml"]
HASHES = "requirements-hashes.txt"
EVERYTHING = ["--all-extras", "pyproject.toml", "requirements-dev.in"]
# pip-compile resolves for the Python that runs it. Here the newer ones need another version: azure-functions 1.x ends
# with Python 3.12, and 2.x begins with 3.13.
NEWER_PYTHON = {"azure-functions": ("3.13", "2.3.0")}


def compile_file(target: str, arguments: list[str], flags: list[str]) -> None:
    """Write one requirements file."""
    subprocess.run(
        [
            *(sys.executable, "-m", "piptools", "compile", "--quiet", "--strip-extras", "--no-header"),
            *("--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host", "--no-emit-options"),
            *("--allow-unsafe", "--annotation-style", "line", *flags, "--output-file", target, *arguments),
        ],
        cwd=ROOT,
        check=True,
    )
    path = ROOT / target
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
    """Write requirements-hashes.txt for the Python that runs."""
    subprocess.run(
        [
            *(sys.executable, "-m", "piptools", "compile", "--quiet", "--strip-extras", "--no-header"),
            *("--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host", "--no-emit-options"),
            *(
                "--allow-unsafe",
                "--no-annotate",
                "--generate-hashes",
                "--build-deps-for",
                "wheel",
                "--constraint",
                "requirements.txt",
            ),
            *("--output-file", HASHES, *DEPLOYMENT),
        ],
        cwd=ROOT,
        check=True,
    )


if __name__ == "__main__" and "--hashes" in sys.argv[1:]:
    compile_hashes()
elif __name__ == "__main__":
    compile_file("requirements.txt", DEPLOYMENT, sys.argv[1:])
    compile_file("requirements-dev.txt", EVERYTHING, sys.argv[1:])
