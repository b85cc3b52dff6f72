"""Command lines as fingers and scripts make them: what they are drawn from, the project they meet, and the laws."""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.cli.console import Console
from tests.cli.project import Ended, Project, files, put_back
from tests.support.waiting import waits

CODES = {0, 1, 2, 3, 4}
USAGE = 2
LINES = {"run", "watch"}
"""Whose --json is a document for each line."""
FIXTURES = Path(__file__).parent / "fixtures"
SECRET = "s3cret"
EXAMPLES = 8
"""Of each command, in a round."""
LEAST, ROUNDS = 5, 8
"""So many of them, at least, must be more than a wrong command line, and one must be done; they come in swarms that are
alike, so that another round is drawn where they were not."""

TEXT = st.one_of(
    st.text(max_size=20),
    st.text(alphabet="0123456789-:. TZ+", max_size=30),
    st.sampled_from(
        ["", "-", "--", "=", "id=", "=1", "id=1=2", "\0", "\ud800", "\x1b[2J", "%s", "{}", "'; DROP TABLE orders; --",
         "2026-01-01", "2026-01-01T00:00:00", "2026-02-30T00:00:00", "9999-12-31T23:59:59.999999", "infinity",
         "0001-01-01 00:00:00", "1" * 5000, "-1", "1e400", "nan", "orders", "orders ", "Orders", "nobody", "/", "."]
    ),
)  # fmt: skip

MOSTLY = st.sampled_from([True] * 9 + [False])


def nearly(*right: str) -> st.SearchStrategy[str]:
    """Mostly one of these."""
    return MOSTLY.flatmap(lambda so: st.sampled_from(right) if so else TEXT)


NAME = nearly("orders", "orders", "orders", "invoices", "moved", "lost")


def mostly(*words: str) -> st.SearchStrategy[list[str]]:
    """All of them, or seldom none."""
    return MOSTLY.map(lambda so: list(words) if so else [])


WRONG = st.tuples(st.sampled_from(["-c", "--nonsense", "--reason", "--limit", "--since"]), TEXT).map(list)
JUNK: st.SearchStrategy[list[str]] = MOSTLY.flatmap(lambda so: st.just([]) if so else WRONG)


def some_of(*flags: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from([*flags, "--json"]), max_size=4)


def crowded(folder: Path) -> Console:
    """A project with a poller behind its table that has a late row, a paused poller, one of another source, and one
    whose table is gone; a folder for a new one; and blobs of azure-functions-db."""
    project = Project(folder)
    window = 'audit_window = "2h"\nbatch_size = 10'
    project.configure("orders", "invoices", "moved", "lost", poller=window)
    for table in ("orders", "invoices", "moved", "lost"):
        project.insert(20, table=table)
    console = Console(project)
    assert console.run("run", "--once").code == 0
    for arguments in (("pause", "invoices", "--yes"), ("checkpoint", "export", "orders", str(folder / "kept.json"))):
        assert console.run(*arguments).code == 0
    project.insert(15)
    project.execute("INSERT INTO orders VALUES (1000, '2026-01-01 00:00:00')")  # late
    with console.store() as store:
        waits(store, failed=[2], behind=[3], key="c")
        waits(store, pending=[4])
    project.execute("DROP TABLE lost")
    begin, text = "[pollers.moved.source]\n", (folder / "poller.toml").read_text()
    project.write(text.replace(begin, f'{begin}filter = "id > 0"\n'))
    (folder / "new").mkdir()
    (folder / "new" / "note").touch()
    for path in FIXTURES.glob("*.json"):
        shutil.copy(path, folder)
    return console


DONE, FAILED, ANY_BUT_USAGE = frozenset({0}), frozenset({0, 1}), frozenset({0, 1, 3, 4})
"""Exit codes behind which something was changed: as a rule; where some of the work was done before it failed; where
one of several pollers was refused."""


def fuzzed(
    console: Console,
    commands: st.SearchStrategy[list[str]],
    *,
    changing: frozenset[int] = DONE,
    only_looks: bool = False,
    also: Callable[[Ended], None] = lambda _: None,
) -> None:
    """No traceback, no code outside the table, and nothing changed, in the store or in any file, by what was refused.

    only_looks: it never changes the store, whatever its files.
    """
    folder = console.project.folder
    kept, codes = files(folder), Counter[int]()
    phases = (Phase.explicit, Phase.reuse, Phase.generate)  # a command line is short as it is

    @settings(max_examples=EXAMPLES, deadline=None, phases=phases, suppress_health_check=list(HealthCheck))
    @given(words=commands)
    def typed(words: list[str]) -> None:
        put_back(folder, kept)
        store = console.everything()
        with contextlib.chdir(folder):  # where a FILE may be, or come to be
            ended = console.run(*words)
        codes[ended.code] += 1
        shown = f"{words!r}: {ended.err}"
        assert ended.code in CODES, shown
        assert "is a fault in poller" not in ended.err, shown
        assert SECRET not in ended.out + ended.err, shown
        if ended.code != 0 and not (ended.out and ("--json" in words or words[0] == "check")):  # which shows it all
            assert any(line.startswith("poller: ") for line in ended.err.splitlines()), shown
        if ended.code not in changing:
            after = files(folder)
            changed = {name for name in kept.keys() | after.keys() if kept.get(name) != after.get(name)}
            assert changed <= {"state.db"}, shown
        if ended.code not in changing or only_looks or "--dry-run" in words:
            assert console.everything() == store, shown
        if "--json" in words and ended.code == 0:
            assert ended.events if words[0] in LINES else ended.json, shown
        also(ended)

    try:
        for number in range(ROUNDS):
            seed(number)(typed)()  # else each round is the first one again, where Hypothesis is told not to vary
            if codes[0] and codes.total() - codes[USAGE] >= LEAST:
                return
    finally:
        put_back(folder, kept)
    raise AssertionError(f"hardly one was more than a wrong command line: {codes}")
