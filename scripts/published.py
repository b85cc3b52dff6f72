"""What is published, and where: the one place that README, pages and the package's long description follow.

Today nothing is: no release is on a package index, and the repository has no public address. When that changes,
`RELEASED` becomes true, the addresses go into `[project.urls]` of pyproject.toml, and the tests name every line that
must follow (tests/repo/packaging/test_published.py).
"""

from __future__ import annotations

RELEASED = False
"""Whether a package index has `poller`. Before that its bare name in `pip install` fetches nothing, or a stranger's."""


def install(extra: str = "", quote: str = '"') -> str:
    """The command with which a reader installs poller: from an index, or in a clone of the repository."""
    what = ("poller" if RELEASED else ".") + (f"[{extra}]" if extra else "")
    return f"pip install {quote}{what}{quote}" if extra else f"pip install {what}"
