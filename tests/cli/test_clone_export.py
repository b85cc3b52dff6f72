"""`poller clone-checkpoint` and `poller export-checkpoint`."""

from __future__ import annotations

import errno
import json
import os
import stat
import tomllib
from datetime import date, datetime
from pathlib import Path

import pytest

from poller.config.toml_tables import tables
from tests.cli.console import Console, ran
from tests.cli.project import NOTING, Project, end, wait_until
from tests.support.schemas import validator

NEW = "state/shop/orders-v2.json"


def test_another_poller_begins_where_this_one_stands(project: Project) -> None:
    console = ran(project)
    output = console.done("clone-checkpoint", "orders", "orders-v2", "--yes")
    assert output["name"] == "orders-v2"
    assert (output["before"], output["backup"]) == (None, None)
    assert any("not configured" in note for note in output["notes"])
    clone, origin = console.state(NEW), console.state()
    assert clone["checkpoint"]["cursor"] == origin["checkpoint"]["cursor"]
    assert (clone["source_fingerprint"], clone["source"]) == (origin["source_fingerprint"], origin["source"])
    assert clone["poller_name"] == "orders-v2"
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace("orders]", "orders-v2]").replace("orders.source]", "orders-v2.source]"))
    project.insert(2)
    assert console.run("run", "--once").code == 0, "it may start at once"
    assert console.state(NEW)["checkpoint"]["metadata"]["row_count"] == 2


def test_an_existing_target_keeps_and_raises_its_own_token(project: Project) -> None:
    project.configure("orders", "invoices")
    project.insert(3)
    project.insert(6, table="invoices")
    console = Console(project)
    assert console.run("run", "--until-idle").code == 0
    assert console.done("pause", "invoices", "--yes")["changed"] is True
    console.refused(3, "clone-checkpoint", "orders", "invoices", "--yes", says="--overwrite")
    console.refused(3, "clone-checkpoint", "orders", "invoices", "--yes", "--overwrite", says="--allow-skip")
    arguments = ("clone-checkpoint", "orders", "invoices", "--overwrite", "--allow-skip")
    before = console.document("state/shop/invoices.json")
    output = console.done(*arguments, "--yes")
    assert (output["before"]["fencing_token"], output["after"]["fencing_token"]) == (1, 2)
    assert output["after"]["source_fingerprint"] == console.state()["source_fingerprint"]
    assert output["after"]["paused"] is True
    assert any("poller rebind invoices" in note for note in output["notes"])
    assert console.document(output["backup"]) == before
    console.undo(output)
    after = console.state("state/shop/invoices.json")
    assert after["checkpoint"]["cursor"]["tiebreaker"] == {"id": 6}
    assert after["source"]["table"] == "invoices"


def test_in_production_overwriting_wants_the_targets_name(project: Project) -> None:
    console = ran(project)
    project.write('environment = "production"\n' + (project.folder / "poller.toml").read_text())
    assert console.done("clone-checkpoint", "orders", "orders-v2", "--yes")["changed"] is True
    again = ("clone-checkpoint", "orders", "orders-v2", "--overwrite")
    console.refused(3, *again, "--yes", says="--confirm orders-v2")
    console.refused(3, *again, "--confirm", "orders")
    assert console.done(*again, "--confirm", "orders-v2")["after"]["fencing_token"] == 2


def test_a_target_at_work_is_refused(project: Project) -> None:
    project.configure("orders", "invoices", handlers=NOTING)
    project.insert(1)
    console = Console(project)
    assert console.run("run", "orders", "--once").code == 0
    (project.folder / "started").unlink()
    (project.folder / "wait").touch()
    project.insert(1, table="invoices")
    worker = project.start("run", "invoices", "--once")
    wait_until(lambda: project.lines("started"))
    console.refused(
        3, "clone-checkpoint", "orders", "invoices", "--overwrite", "--allow-skip", "--yes", says="--break-lease"
    )
    (project.folder / "wait").unlink()
    assert end(worker).code == 0


def test_a_clone_names_what_to_configure_and_that_runs(project: Project) -> None:
    console = ran(project)
    config = project.folder / "poller.toml"
    before = config.read_text()
    printed = console.run("clone-checkpoint", "orders", "orders-v2", "--yes")
    assert printed.code == 0, printed.err
    assert f"Next: add this to {config}, change what is to differ, then run: " in printed.out
    added = printed.out[printed.out.index("[pollers.orders-v2]") :]
    tree = tomllib.loads(before + added)
    assert tree["pollers"]["orders-v2"] == tree["pollers"]["orders"]
    config.write_text(before + added)
    project.insert(2)
    ended = console.run("run", "orders-v2", "--once", "--json")
    assert (ended.code, ended.events[-1]["rows"]) == (0, 2), ended.err
    again = console.done("clone-checkpoint", "orders", "orders-v2", "--overwrite", "--allow-skip", "--yes")
    assert "configure" not in again or again["configure"] is None


def test_a_table_written_as_toml_reads_back_as_it_was() -> None:
    tree = {
        "batch_size": 5,
        "error_text": True,
        "lease_ttl": "60s",
        "source": {
            "filter": 'a > "b" -- 50 % \\ \n\x7f\u2028',
            "pk_columns": ["id", "a b"],
            "at": datetime(2026, 1, 2),
        },
        "odd key": {"x": 1.5, "y": [{"z": "1"}], "d": date(2026, 1, 2)},
    }
    assert tomllib.loads(tables("pollers.orders-v2", tree)) == {"pollers": {"orders-v2": tree}}


def test_a_clone_that_was_deleted_goes_on_above_its_old_token(project: Project) -> None:
    console = ran(project)
    console.done("clone-checkpoint", "orders", "orders-v2", "--yes")
    console.done("clone-checkpoint", "orders", "orders-v2", "--yes", "--overwrite")
    project.execute(f"DELETE FROM poller_documents WHERE name = '{NEW}'", database="state.db")
    assert console.done("clone-checkpoint", "orders", "orders-v2", "--yes")["after"]["fencing_token"] == 3


def test_names_that_cannot_be(project: Project) -> None:
    console = ran(project)
    for name in ("Orders", "orders", "../x", "a" * 64, ""):
        console.refused(2, "clone-checkpoint", "orders", name, "--yes", says="NEW_NAME")


def test_an_export_says_all_that_it_belongs_to(project: Project) -> None:
    console = ran(project)
    before = console.everything()
    ended = console.run("export-checkpoint", "orders")
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
    ended = console.run("export-checkpoint", "orders", str(path))
    assert ended.code == 0
    assert str(path) in ended.out
    path.write_text("precious")
    console.refused(3, "export-checkpoint", "orders", str(path), says="--overwrite")
    assert path.read_text() == "precious"
    ended = console.run("export-checkpoint", "orders", str(path), "--overwrite", "--json")
    assert json.loads(path.read_text()) == ended.json
    assert [one.name for one in project.folder.iterdir() if one.name.endswith(".part")] == []
    console.refused(2, "export-checkpoint", "orders", str(project.folder / "no" / "such" / "x.json"), says="written")


def test_a_pipe_is_written_to_and_a_link_is_refused(project: Project) -> None:
    """As root, to replace what stands at /dev/stdout or /dev/null would break the machine."""
    console = ran(project)
    pipe, link, kept = (project.folder / name for name in ("pipe", "link.json", "kept.json"))
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert console.run("export-checkpoint", "orders", str(pipe), "--overwrite").code == 0
    assert json.loads(os.read(reading, 100_000))["cursor"]["tiebreaker"] == {"id": 5}
    os.close(reading)
    assert pipe.is_fifo()
    kept.write_text("old")
    link.symlink_to(kept)
    for target, options in ((kept, ()), (kept, ("--overwrite",)), (project.folder / "planted", ())):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        console.refused(2, "export-checkpoint", "orders", str(link), *options, says="it is a link")
    assert kept.read_text() == "old"
    assert not (project.folder / "planted").exists()


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
            assert console.run("export-checkpoint", "orders", str(path), "--overwrite").code == 0
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
    assert console.run("export-checkpoint", "orders", str(kept)).code == 0
    assert json.loads(kept.read_text())["cursor"]["tiebreaker"] == {"id": 5}
    assert console.run("export-checkpoint", "orders", str(kept)).code == 3


def test_a_poller_that_never_ran_has_nothing_to_export(project: Project) -> None:
    project.configure("orders")
    Console(project).refused(1, "export-checkpoint", "orders", says="never ran")


def test_the_undo_of_an_overwritten_clone_says_what_it_needs(project: Project) -> None:
    console = ran(project)
    console.done("clone-checkpoint", "orders", "orders-v2", "--yes")
    output = console.done("clone-checkpoint", "orders", "orders-v2", "--yes", "--overwrite")
    assert any("Before it is undone, configure orders-v2" in note for note in output["notes"])
    text = (project.folder / "poller.toml").read_text()
    project.write(text + text[text.index("[pollers") :].replace("pollers.orders", "pollers.orders-v2"))
    console.undo(output)


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
    exported = console.run("export-checkpoint", "replay")
    assert exported.code == 0, exported.err
    assert exported.json["poller"] == "replay-1of3"
    file = str(project.folder / "kept.json")
    assert "replay" in console.run("export-checkpoint", "replay", file).out
