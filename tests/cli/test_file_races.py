"""Commands that write files, or hand over rows that came late, held between two of their steps while somebody else acts
completely."""

from __future__ import annotations

import pytest

from tests.cli.conftest import NOTING
from tests.cli.console import Console
from tests.cli.crashes import Place
from tests.cli.races import INTRUDERS, ROWS, Case, Scene
from tests.cli.test_change_races import HALF, place, shop, worked, write

__all__ = ["place", "shop"]


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
def test_a_file_that_another_wrote_meanwhile_is_not_replaced_unless_told(place: Place) -> None:
    file = place.project.folder / "theirs.out"
    for options, code in (((), 3), (("--overwrite",), 0)):
        command = ("export-checkpoint", "orders", file.name, *options)
        file.unlink(missing_ok=True)
        last = len(place.steps(*command))
        file.unlink()
        with place.held(last, "before", *command) as let_go:
            file.write_text("precious")
            ended = let_go()
        assert ended.code == code, ended.err
        assert (file.read_text() == "precious") is (code == 3)
    assert [path.name for path in place.project.folder.iterdir() if path.name.endswith(".part")] == []


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
def test_two_inits_at_once_leave_one_of_the_two_projects(place: Place) -> None:
    folder = place.project.folder / "new"
    folder.mkdir()
    config = folder / "poller.toml"
    console = Console(place.project)
    command = ("init", "-c", str(config), "--url", f"sqlite:///{place.project.folder}/shop.db", "--table", "orders")
    steps = place.steps(*command, "--app", "ours", "--yes")
    for step in range(1, len(steps) + 1):
        for path in folder.iterdir():
            path.unlink()
        with place.held(step, "before", *command, "--app", "ours", "--yes") as let_go:
            others = console.run(*command, "--app", "others", "--yes")
            ended = let_go()
        assert {ended.code, others.code} == {0, 3}, (steps[step - 1], ended.err, others.err)
        winner = "ours" if ended.code == 0 else "others"
        assert f'app_name = "{winner}"' in config.read_text()
        assert {path.name for path in folder.iterdir()} == {"poller.toml", "handlers.py"}


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
def test_late_rows_are_not_handed_over_beside_a_worker_nor_after_a_pause(place: Place) -> None:
    project = place.project
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace("batch_size", 'audit_window = "2h"\nbatch_size'), NOTING)
    worked(place, "orders", ROWS - HALF)
    late, next_one = (ROWS + 1, "2026-01-01 00:00:00"), (ROWS + 2, "2026-01-01 00:00:05")
    project.execute("INSERT INTO orders VALUES (?, ?)", late, next_one)
    command = ("recheck", "orders", "--redeliver", "--yes", "--json")
    place.keep()
    place.restore()
    steps = place.steps(*command)
    assert project.lines("seen") == [f"orders {ROWS + 1} 6"]
    for intruder in ("a worker begins", "another pauses", "another resets"):
        for step in (write(steps) - 1, write(steps)):
            (project.folder / "seen").unlink(missing_ok=True)
            place.restore()
            scene = Scene(place, Case("", command, None))
            with place.held(step, "before", *command) as let_go:
                INTRUDERS[intruder].meanwhile(scene)
                met = scene.body
                ended = let_go()
            if intruder == "another resets" and step < write(steps):
                continue  # it then works beside the reset: its row only comes once more
            assert (ended.code, ended.out) == (3, ""), (intruder, steps[step - 1])
            assert (project.lines("seen"), scene.body) == ([], met), (intruder, steps[step - 1])
            INTRUDERS[intruder].after(scene)
