from __future__ import annotations

import json
import re

from pathspec import GitIgnoreSpec

from tests.repo.packaging.repository import committed_files
from tests.support.cases import each
from tests.support.services import REPOSITORY

LOCK_FILES = {
    *("Pipfile.lock", "pdm.lock", "poetry.lock", "pylock.toml", "uv.lock"),
    *("npm-shrinkwrap.json", "package-lock.json", "pnpm-lock.yaml", "yarn.lock"),
}
# Split, so that this file does not name what it looks for.
ADDRESSES = re.compile(
    "|".join(
        [
            r"https?://[^\s\"'`)]*" + host
            for host in (
                r"pypi\." + r"org/simple",
                r"files\.python" + "hosted",
                r"registry\." + "npmjs",
                r"registry\." + "yarn",
            )
        ]
        + [r"--(?:extra-)?index" + r"-url[= ]+\S*:", r"--find" + r"-links[= ]+\S*/", r'"resolved' + r'":\s*"http'],
    )
)


def test_no_lock_file_is_committed() -> None:
    assert [path for path in committed_files() if path.name in LOCK_FILES] == []


def test_no_committed_file_names_the_address_of_a_registry() -> None:
    found = []
    for path in committed_files():
        text = path.read_bytes()
        if b"\0" not in text and (address := ADDRESSES.search(text.decode())):
            found.append(f"{path.relative_to(REPOSITORY)}: {address[0]}")
    assert found == []


def ignored_by_core_tools(lines: list[str], path: str) -> bool:
    """By the rules of Azure Functions Core Tools 4, which are not git's: every pattern is one for a path's beginning, a
    star is one or more characters other than a slash, and what any `!` pattern matches is taken, wherever that
    stands. (Its GitIgnoreParser.cs was read; it is not run here.)"""

    def matches(pattern: str) -> bool:
        parts = (re.escape(part).replace(r"\*", "[^/]+") for part in pattern.lstrip("/").split("**"))
        return re.match("(.+)".join(parts), path) is not None

    rules = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if any(rule.startswith("!") and matches(rule[1:]) for rule in rules):
        return False
    return any(not rule.startswith("!") and matches(rule) for rule in rules)


@each(
    ("path", "deployed"),
    [
        ("function_app.py", True),
        ("host.json", True),
        ("requirements.txt", True),
        ("poller/__init__.py", True),
        ("poller/stores/blob/store.py", True),
        ("poller.toml", True),
        ("handlers.py", True),
        ("cli/poller_cli/main.py", False),
        ("tests/conftest.py", False),
        (".venv/bin/python", False),
        (".tools/node_modules/azurite/package.json", False),
        (".git/config", False),
        ("local.settings.json", False),
        ("requirements-dev.txt", False),
        ("state.db", False),
        (".python_packages/lib/site-packages/psycopg/__init__.py", True),
        (".python_packages/lib/site-packages/psycopg_binary/.libs/libpq.so", True),
        (".python_packages/lib/site-packages/babel/global.db", True),
        (".python_packages/lib/site-packages/poller-0.1.0.dist-info/LICENSE", True),
    ],
)
def test_a_deployment_takes_the_library_and_leaves_the_workshop(path: str, deployed: bool) -> None:
    lines = (REPOSITORY / ".funcignore").read_text().splitlines()
    assert GitIgnoreSpec.from_lines(lines).match_file(path) is not deployed
    assert ignored_by_core_tools(lines, path) is not deployed


@each("folder", ["", "examples/functions/"])
@each(
    ("path", "deployed"),
    [
        (".python_packages/lib/site-packages/yaml/.hidden/data.db", True),
        ("handlers.py", True),
        (".venv/bin/python", False),
        (".env", False),
        ("local.settings.json", False),
    ],
)
def test_a_local_builds_packages_are_deployed(folder: str, path: str, deployed: bool) -> None:
    lines = (REPOSITORY / folder / ".funcignore").read_text().splitlines()
    assert GitIgnoreSpec.from_lines(lines).match_file(path) is not deployed
    assert ignored_by_core_tools(lines, path) is not deployed


def test_the_host_waits_longer_than_a_tick_lasts() -> None:
    from poller.config import PollerConfig

    hours, minutes, seconds = json.loads((REPOSITORY / "host.json").read_text())["functionTimeout"].split(":")
    host = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    assert PollerConfig.model_fields["tick_timeout"].get_default().total_seconds() <= host - 15
