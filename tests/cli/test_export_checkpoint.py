"""`poller checkpoint export`: what it writes, and how the file is made."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from tests.cli.console import Console, ran
from tests.cli.project import Project
from tests.support.schemas import validator


def test_an_export_says_all_that_it_belongs_to(project: Project) -> None:
    console = ran(project)
    before = console.everything()
    ended = console.run("checkpoint", "export", "orders")
    assert ended.code == 0
    state = console.state()
    validator("checkpoint").validate(ended.json)
    assert ended.json["version"] == 1
    assert (ended.json["app"], ended.json["poller"], ended.json["generation"]) == ("shop", "orders", 0)
    assert ended.json["cursor"] == state["checkpoint"]["cursor"]
    assert (ended.json["source_fingerprint"], ended.json["source"]) == (state["source_fingerprint"], state["source"])
    assert ended.json["exported_at"].endswith("Z")
    assert console.everything() == before


def test_a_file_is_replaced_only_with_overwrite(project: Project) -> None:
    console = ran(project)
    path = project.folder / "kept.json"
    ended = console.run("checkpoint", "export", "orders", str(path))
    assert ended.code == 0
    assert str(path) in ended.out
    path.write_text("precious")
    console.refused(3, "checkpoint", "export", "orders", str(path), says="--overwrite")
    assert path.read_text() == "precious"
    ended = console.run("checkpoint", "export", "orders", str(path), "--overwrite", "--json")
    assert json.loads(path.read_text()) == ended.json
    assert [one.name for one in project.folder.iterdir() if one.name.endswith(".part")] == []
    console.refused(2, "checkpoint", "export", "orders", str(project.folder / "no" / "such" / "x.json"), says="written")


def test_a_pipe_is_written_to_and_a_link_is_refused(project: Project) -> None:
    """As root, to replace what stands at /dev/stdout or /dev/null would break the machine."""
    console = ran(project)
    pipe, link, kept = (project.folder / name for name in ("pipe", "link.json", "kept.json"))
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert console.run("checkpoint", "export", "orders", str(pipe), "--overwrite").code == 0
    assert json.loads(os.read(reading, 100_000))["cursor"]["tiebreaker"] == {"id": 5}
    os.close(reading)
    assert pipe.is_fifo()
    kept.write_text("old")
    link.symlink_to(kept)
    for target, options in ((kept, ()), (kept, ("--overwrite",)), (project.folder / "planted", ())):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        console.refused(2, "checkpoint", "export", "orders", str(link), *options, says="it is a link")
    assert kept.read_text() == "old"
    assert not (project.folder / "planted").exists()


@pytest.mark.guarantee(
    "Hostile and broken input",
    "Files with checkpoints or a configuration can be read by their owner only, and are never written through a link",
)
def test_only_its_owner_may_read_what_a_command_writes(project: Project) -> None:
    def rights(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    before = os.umask(0)
    try:
        console = ran(project)
        kept, theirs = (project.folder / name for name in ("kept.json", "theirs.json"))
        theirs.touch()
        theirs.chmod(0o640)
        for path in (kept, theirs):
            assert console.run("checkpoint", "export", "orders", str(path), "--overwrite").code == 0
        new = project.folder / "new" / "poller.toml"
        new.parent.mkdir()
        command = ("init", "-c", str(new), "--url", f"sqlite:///{project.folder}/shop.db", "--table", "orders")
        assert console.run(*command, "--app", "shop", "--yes").code == 0
    finally:
        os.umask(before)
    assert rights(kept) == 0o600
    assert rights(theirs) == 0o640  # what was there stays as its owner made it
    assert {rights(path) for path in new.parent.iterdir() if path.is_file()} == {0o600}


def test_on_a_share_without_hard_links_it_is_written_too(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    console = ran(project)
    monkeypatch.setattr(os, "link", refuse)
    kept = project.folder / "kept.json"
    assert console.run("checkpoint", "export", "orders", str(kept)).code == 0
    assert json.loads(kept.read_text())["cursor"]["tiebreaker"] == {"id": 5}
    assert console.run("checkpoint", "export", "orders", str(kept)).code == 3


def test_a_backfill_of_one_part_is_exported_by_its_name(project: Project) -> None:
    project.configure("orders", source='cursor_kind = "integer+pk"\nbound = "none"')
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace('"updated_at"', '"id"').replace('cursor_time_zone = "UTC"', ""))
    project.insert(5)
    console = Console(project)
    ends = ("--from", "1", "--to", "2", "--parallel", "3")
    ended = console.run("backfill", "orders", *ends, "--as", "replay", "--yes", "--json")
    assert ended.code == 0, ended.err
    assert [part["name"] for part in ended.json["parts"]] == ["replay-1of3"]
    exported = console.run("checkpoint", "export", "replay")
    assert exported.code == 0, exported.err
    assert exported.json["poller"] == "replay-1of3"
    file = str(project.folder / "kept.json")
    assert "replay" in console.run("checkpoint", "export", "replay", file).out
