"""The file of `poller run --alive-file`: young while the loop goes round, for its owner alone, never through a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from poller import files
from poller.errors import ConfigError
from poller.worker import AliveFile
from tests.integration.runner.clockwork import Clockwork


@pytest.fixture
def clock() -> Clockwork:
    return Clockwork()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alive"


def test_it_is_there_at_once_and_its_owners(path: Path, clock: Clockwork) -> None:
    AliveFile(path, clock)
    assert path.read_text().startswith("2026-05-01T00:00:00+00:00 ")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_is_written_every_five_seconds_and_not_more_often(path: Path, clock: Clockwork) -> None:
    alive, written = AliveFile(path, clock), set[str]()
    for _ in range(120):
        clock.sleep(0.5)
        alive.touch()
        written.add(path.read_text())
    assert len(written) == 13
    clock.sleep(2)
    assert 2 < alive.left() <= 5


def test_one_that_others_could_read_is_the_owners_again(path: Path, clock: Clockwork) -> None:
    path.write_text("of another day")
    path.chmod(0o666)
    AliveFile(path, clock)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_is_seen_whole_or_not_at_all(path: Path, clock: Clockwork) -> None:
    """A new file takes the place of the old one: who has that open still reads all of it."""
    alive = AliveFile(path, clock)
    with path.open() as former:
        clock.sleep(6)
        alive.touch()
        assert former.read().startswith("2026-05-01T00:00:00+00:00 ")
    assert path.read_text().startswith("2026-05-01T00:00:06+00:00 ")
    assert [one.name for one in path.parent.iterdir()] == ["alive"]


def test_through_a_link_nothing_is_written(path: Path, tmp_path: Path, clock: Clockwork) -> None:
    target = tmp_path / "passwords"
    target.write_text("precious")
    path.symlink_to(target)
    with pytest.raises(ConfigError, match="it is a link"):
        AliveFile(path, clock)
    path.unlink()
    alive = AliveFile(path, clock)
    path.unlink()
    path.symlink_to(target)
    clock.sleep(6)
    alive.touch()
    assert target.read_text() == "precious"


@pytest.mark.parametrize("name", ["missing/alive", "", "bad\0name"])
def test_a_path_that_cannot_be_written_is_refused_at_once(tmp_path: Path, name: str, clock: Clockwork) -> None:
    with pytest.raises(ConfigError, match="--alive-file") as refused:
        AliveFile(tmp_path / name, clock)
    assert refused.value.next_step is not None


def test_what_fails_later_is_logged_once(path: Path, clock: Clockwork, caplog: pytest.LogCaptureFixture) -> None:
    alive = AliveFile(path, clock)
    path.unlink()
    path.mkdir()
    for _ in range(5):
        clock.sleep(6)
        alive.touch()
    assert [record.message.partition(",")[0] for record in caplog.records] == [f"{path} could not be touched"]
    path.rmdir()
    clock.sleep(6)
    alive.touch()
    assert path.is_file()


def test_at_the_end_it_is_gone(path: Path, clock: Clockwork) -> None:
    alive = AliveFile(path, clock)
    alive.remove()
    alive.remove()
    assert not path.exists()


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    """Nor is a device: as root, /dev/null would be a file from then on, for the whole machine."""
    os.mkfifo(pipe := tmp_path / "alive")
    with pytest.raises(ConfigError, match="it is a device, pipe or socket"):
        AliveFile(pipe)
    assert pipe.is_fifo()


def test_a_pipe_is_not_overwritten_by_an_export(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "exported")
    with pytest.raises(OSError, match="it is a device, pipe or socket"):
        files.write_whole(pipe, "text", overwrite=True)
    assert pipe.is_fifo()
