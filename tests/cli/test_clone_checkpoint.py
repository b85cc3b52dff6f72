"""`poller checkpoint clone`."""

from __future__ import annotations

import tomllib

from tests.cli.console import Console, ran
from tests.cli.project import NOTING, Project, end
from tests.support.services import wait_until

NEW = "state/shop/orders-v2.json"


def test_another_poller_begins_where_this_one_stands(project: Project) -> None:
    console = ran(project)
    output = console.done("checkpoint", "clone", "orders", "orders-v2", "--yes")
    assert (output["command"], output["name"]) == ("clone-checkpoint", "orders-v2"), "records keep their word"
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
    console.refused(3, "checkpoint", "clone", "orders", "invoices", "--yes", says="--overwrite")
    console.refused(3, "checkpoint", "clone", "orders", "invoices", "--yes", "--overwrite", says="--allow-skip")
    arguments = ("checkpoint", "clone", "orders", "invoices", "--overwrite", "--allow-skip")
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
        3, "checkpoint", "clone", "orders", "invoices", "--overwrite", "--allow-skip", "--yes", says="--break-lease"
    )
    (project.folder / "wait").unlink()
    assert end(worker).code == 0


def test_a_clone_names_what_to_configure_and_that_runs(project: Project) -> None:
    console = ran(project)
    config = project.folder / "poller.toml"
    before = config.read_text()
    printed = console.run("checkpoint", "clone", "orders", "orders-v2", "--yes")
    assert printed.code == 0, printed.err
    assert f"Next: add this to {config}, change what is to differ, then run: " in printed.out
    added = printed.out[printed.out.index("[pollers.orders-v2]") :]
    tree = tomllib.loads(before + added)
    assert tree["pollers"]["orders-v2"] == tree["pollers"]["orders"]
    config.write_text(before + added)
    project.insert(2)
    ended = console.run("run", "orders-v2", "--once", "--json")
    assert (ended.code, ended.events[-1]["rows"]) == (0, 2), ended.err
    again = console.done("checkpoint", "clone", "orders", "orders-v2", "--overwrite", "--allow-skip", "--yes")
    assert "configure" not in again or again["configure"] is None


def test_a_clone_of_an_included_poller_keeps_its_template(project: Project) -> None:
    project.configure("orders")
    config = project.folder / "poller.toml"
    head, own = config.read_text().split("[pollers.orders]")
    (project.folder / "teams").mkdir()
    included = "[pollers.orders]\ntemplate = 'all'\n" + own.partition("\n\n")[2]
    (project.folder / "teams" / "a.toml").write_text(included)
    config.write_text('include = ["teams/a.toml"]\n' + head + '[templates.all]\nhandler = "handlers:handle"\n')
    project.insert(2)
    assert project.run("run", "--once").code == 0
    printed = project.run("checkpoint", "clone", "orders", "orders-v2", "--yes")
    assert printed.code == 0, printed.err
    added = printed.out[printed.out.index("[pollers.orders-v2]") :]
    assert tomllib.loads(added)["pollers"]["orders-v2"] == tomllib.loads(included)["pollers"]["orders"]


def test_a_clone_that_was_deleted_goes_on_above_its_old_token(project: Project) -> None:
    console = ran(project)
    console.done("checkpoint", "clone", "orders", "orders-v2", "--yes")
    console.done("checkpoint", "clone", "orders", "orders-v2", "--yes", "--overwrite")
    project.execute(f"DELETE FROM poller_documents WHERE name = '{NEW}'", database="state.db")
    assert console.done("checkpoint", "clone", "orders", "orders-v2", "--yes")["after"]["fencing_token"] == 3


def test_names_that_cannot_be(project: Project) -> None:
    console = ran(project)
    for name in ("Orders", "orders", "../x", "a" * 64, ""):
        console.refused(2, "checkpoint", "clone", "orders", name, "--yes", says="NEW_NAME")


def test_the_undo_of_an_overwritten_clone_says_what_it_needs(project: Project) -> None:
    console = ran(project)
    console.done("checkpoint", "clone", "orders", "orders-v2", "--yes")
    output = console.done("checkpoint", "clone", "orders", "orders-v2", "--yes", "--overwrite")
    assert any("Before it is undone, configure orders-v2" in note for note in output["notes"])
    text = (project.folder / "poller.toml").read_text()
    project.write(text + text[text.index("[pollers") :].replace("pollers.orders", "pollers.orders-v2"))
    console.undo(output)
