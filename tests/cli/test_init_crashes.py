"""`poller init`, killed by SIGKILL at every step: no half file, and the same command goes on."""

from __future__ import annotations

import signal

import pytest

from tests.cli.crashes import every_moment
from tests.cli.forge import Forge
from tests.cli.project import Project

INIT = ("init", "--url", "sqlite:///shop.db", "--table", "orders", "--app", "shop", "--yes")
FILES = ("poller.toml", "handlers.py")


@pytest.mark.parametrize(
    "force", [False, pytest.param(True, marks=[pytest.mark.soak, pytest.mark.timeout(600)])], ids=["new", "force"]
)
def test_a_killed_init_leaves_no_half_file_and_goes_on(project: Project, forge: Forge, force: bool) -> None:
    project.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    project.insert(2)
    forge.folder, forge.environ = project.folder, project.environ
    command = (*INIT, "--force") if force else INIT

    def texts() -> list[str | None]:
        paths = [project.folder / name for name in FILES]
        return [path.read_text() if path.exists() else None for path in paths]

    def put_back() -> None:
        for name in FILES:
            (project.folder / name).unlink(missing_ok=True)
            if force:
                (project.folder / name).write_text("precious")

    put_back()
    before = texts()
    assert forge.run(*command) == 0, forge.err
    whole, steps = texts(), forge.steps
    writing = [number for number, step in enumerate(steps, 1) if step.startswith("write_new")]
    outcomes = set()
    for step, when in [*every_moment(steps), *((number, "within") for number in writing)]:
        put_back()
        assert forge.run(*command, step=step, when=when) == -signal.SIGKILL, forge.err
        left = texts()
        outcomes.add(tuple(one == new for one, new in zip(left, whole, strict=True)))
        assert all(one in (old, new) for one, old, new in zip(left, before, whole, strict=True)), (step, when)
        # Where all of it was there already, nothing is left to do.
        assert forge.run(*command) == (3 if left == whole and not force else 0), (step, when, forge.err)
        assert texts() == whole, (step, when)
    assert outcomes == {(False, False), (False, True), (True, True)}, "the configuration comes last"
    assert forge.run("run", "orders", "--once") == 0, forge.err


def test_an_init_that_was_killed_in_between_overwrites_no_handler_that_was_changed_since(
    project: Project, forge: Forge
) -> None:
    project.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    forge.folder, forge.environ = project.folder, project.environ
    assert forge.run(*INIT) == 0, forge.err
    (project.folder / "poller.toml").unlink()
    mine = (project.folder / "handlers.py").read_text() + "\nmine = True\n"
    (project.folder / "handlers.py").write_text(mine)
    assert forge.run(*INIT) == 3
    assert "handlers.py exists already" in forge.err
    assert (project.folder / "handlers.py").read_text() == mine
    assert not (project.folder / "poller.toml").exists()
