"""Changes from Python, by methods of `Poller` and functions of `poller.admin`: held against the commands."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import pytest

from poller import Batch, FingerprintMismatch, LeaseHeld, Poller, PollerError, load_app
from poller.admin import ChangeOptions, ChangeOutput, Changes, Rebind, clone_checkpoint, find_checkpoint, read_foreign
from poller.backfill import BackfillOutput
from poller.model.cursor import Cursor
from poller.model.limits import LONGEST_REASON
from tests.cli.console import Console, again, at_work, changed, ran
from tests.cli.project import Project
from tests.support.cases import each
from tests.support.waiting import row_id, waits

Result = TypeVar("Result")
Call = Callable[[Poller], ChangeOutput]
BEGINS, ENDS = "2026-01-01 00:00:00", "2026-01-01 00:00:01"
BACKFILL = ("backfill", "orders", "--from", BEGINS, "--to", ENDS)


def at(number: int, value: str = "2026-01-01 00:00:00") -> Cursor:
    return Cursor(kind="timestamp+pk", value=value, tiebreaker={"id": number})


def to(number: int, value: str = "2026-01-01T00:00:00") -> tuple[str, ...]:
    return "reset-to-cursor", "orders", "--value", value, "--pk", f"id={number}"


def nothing(_: Console) -> None:
    """As `ran` leaves it."""


def paused(console: Console) -> None:
    console.done("pause", "orders", "--yes", "--reason", "night")


def behind(console: Console) -> None:
    console.done("reset-to-beginning", "orders", "--yes")


def elsewhere(console: Console) -> None:
    """Its checkpoint belongs to another table."""
    source = console.state()["source"]
    console.edit(source_fingerprint="sha256:" + "0" * 64, source={**source, "table": "others"})


def elsewhere_at_work(console: Console) -> None:
    elsewhere(console)
    at_work(console)


def elsewhere_while_rows_wait(console: Console) -> None:
    elsewhere(console)
    console.edit(quarantine=[{"id": "00", "pk": "00", "key": "00", "cursor": console.state()["checkpoint"]["cursor"]}])


def gone(console: Console) -> None:
    console.project.execute("DELETE FROM poller_documents", database="state.db")


FAILING = "def handle(batch): raise ValueError('no such customer')\n"


def replayed(console: Console) -> None:
    """The range was delivered, by the name `replay`."""
    assert console.run(*BACKFILL, "--as", "replay", "--yes").code == 0


def stopped(console: Console) -> None:
    """A backfill of the range halted."""
    changed(console.project, 'handler = "', 'max_attempts = 1\non_poison = "halt"\nhandler = "')
    (console.project.folder / "handlers.py").write_text(FAILING)
    assert console.project.run(*BACKFILL, "--as", "replay", "--yes").code == 1  # a process imports it anew
    (console.project.folder / "handlers.py").write_text("def handle(batch): pass\n")


def stopped_and_paused(console: Console) -> None:
    """And was then paused."""
    stopped(console)
    console.done("pause", "replay", "--yes", "--reason", "night")


def waiting(console: Console) -> None:
    """Two rows are aside, a third waits for a person."""
    with console.store() as store:
        waits(store, failed=[2, 3], pending=[4])


def waiting_at_work(console: Console) -> None:
    waiting(console)
    at_work(console)


def waiting_paused(console: Console) -> None:
    waiting(console)
    paused(console)


def waiting_ahead(console: Console) -> None:
    """One that the checkpoint has not passed."""
    with console.store() as store:
        waits(store, ahead=[6])


def more(console: Console) -> None:
    console.project.insert(3)


def more_at_work(console: Console) -> None:
    more(console)
    at_work(console)


def without_its_handler(console: Console) -> None:
    changed(console.project, "handlers:handle", "handlers:lost")


def with_poller(console: Console, call: Callable[[Poller], Result]) -> Result:
    path = console.project.folder / "poller.toml"
    with patch.dict(os.environ, console.project.environ), load_app(path, observers=[]) as app:
        return call(app.poller("orders"))


REFUSED: dict[str, tuple[Callable[[Console], None], tuple[str, ...], Callable[[Poller], object]]] = {
    "a lease that is held": (at_work, ("reset-to-beginning", "orders"), lambda poller: poller.reset("beginning")),
    "rows that would be skipped": (behind, to(2), lambda poller: poller.reset(at(2))),
    "rows that may yet appear": (
        nothing,
        to(1, "2999-01-01T00:00:00"),
        lambda poller: poller.reset(at(1, "2999-01-01 00:00:00")),
    ),
    "a checkpoint of another source": (elsewhere, to(2), lambda poller: poller.reset(at(2))),
    "a value that is none of the column's": (
        nothing,
        to(2, "yesterday"),
        lambda poller: poller.reset(at(2, "yesterday")),
    ),
    "no document to pause": (gone, ("pause", "orders"), lambda poller: poller.pause()),
    "no document to cancel": (gone, ("cancel", "orders"), lambda poller: poller.cancel()),
    "a reason to cancel that is too long": (
        nothing,
        ("cancel", "orders", "--reason", "x" * (LONGEST_REASON + 1)),
        lambda poller: poller.cancel(reason="x" * (LONGEST_REASON + 1)),
    ),
    "no document to resume": (gone, ("resume", "orders"), lambda poller: poller.resume()),
    "a reason that is too long": (
        nothing,
        ("pause", "orders", "--reason", "x" * (LONGEST_REASON + 1)),
        lambda poller: poller.pause(reason="x" * (LONGEST_REASON + 1)),
    ),
    "a rebind under a lease that is held": (
        elsewhere_at_work,
        ("rebind", "orders"),
        lambda poller: Changes(poller).make(Rebind()),
    ),
    "a rebind while rows wait": (
        elsewhere_while_rows_wait,
        ("rebind", "orders"),
        lambda poller: Changes(poller).make(Rebind()),
    ),
    "neither a file nor a backup": (
        nothing,
        ("reset-to-checkpoint", "orders", "nowhere.json"),
        lambda poller: find_checkpoint(poller, "nowhere.json"),
    ),
    "a clone to what is not a name": (
        nothing,
        ("clone-checkpoint", "orders", "No Name"),
        lambda poller: clone_checkpoint(poller, "No Name"),
    ),
    "a clone over a backfill": (
        replayed,
        ("clone-checkpoint", "orders", "replay", "--overwrite"),
        lambda poller: clone_checkpoint(poller, "replay", overwrite=True),
    ),
    "nothing to import": (
        nothing,
        ("import", "azure-functions-db", "nowhere.json", "--name", "orders"),
        lambda poller: read_foreign("nowhere.json", connection="", environ={}, now=datetime.now(UTC)),
    ),
    "a range of no row": (
        nothing,
        ("backfill", "orders", "--from", ENDS, "--to", BEGINS),
        lambda poller: poller.backfill(ENDS, BEGINS),
    ),
    "an end that is none of the column's": (
        nothing,
        ("backfill", "orders", "--from", "soon", "--to", ENDS),
        lambda poller: poller.backfill("soon", ENDS),
    ),
    "a range that rows may yet appear in": (
        nothing,
        ("backfill", "orders", "--from", BEGINS, "--to", "2999-01-01"),
        lambda poller: poller.backfill(BEGINS, "2999-01-01"),
    ),
    "a backfill while the checkpoint is of another source": (
        elsewhere,
        BACKFILL,
        lambda poller: poller.backfill(BEGINS, ENDS),
    ),
    "a backfill by a poller's name": (
        nothing,
        (*BACKFILL, "--as", "orders"),
        lambda poller: poller.backfill(BEGINS, ENDS, name="orders"),
    ),
    "a backfill by what is not a name": (
        nothing,
        (*BACKFILL, "--as", "No Name"),
        lambda poller: poller.backfill(BEGINS, ENDS, name="No Name"),
    ),
    "a backfill by the name of another range": (
        replayed,
        ("backfill", "orders", "--from", BEGINS, "--to", "2026-01-01 00:00:02", "--as", "replay"),
        lambda poller: poller.backfill(BEGINS, "2026-01-01 00:00:02", name="replay"),
    ),
    "a backfill that halted": (
        stopped,
        (*BACKFILL, "--as", "replay"),
        lambda poller: poller.backfill(BEGINS, ENDS, name="replay"),
    ),
    "a backfill that halted and was paused": (
        stopped_and_paused,
        (*BACKFILL, "--as", "replay", "--retry"),
        lambda poller: poller.backfill(BEGINS, ENDS, name="replay", retry=True),
    ),
    "a row that never waited": (
        waiting,
        ("quarantine", "discard", "orders", "--id", "0" * 16),
        lambda poller: poller.quarantine.discard("0" * 16),
    ),
    "a show of a row that never waited": (
        waiting,
        ("quarantine", "show", "orders", "--id", "0" * 16),
        lambda poller: poller.quarantine.show("0" * 16),
    ),
    "no row that is named": (waiting, ("quarantine", "discard", "orders"), lambda poller: poller.quarantine.discard()),
    "a key of other columns": (
        waiting,
        ("quarantine", "discard", "orders", "--key", "total=3"),
        lambda poller: poller.quarantine.discard(key={"total": "3"}),
    ),
    "a discard under a lease that is held": (
        waiting_at_work,
        ("quarantine", "discard", "orders", "--all"),
        lambda poller: poller.quarantine.discard(all=True),
    ),
    "a discard of what was not passed": (
        waiting_ahead,
        ("quarantine", "discard", "orders", "--id", row_id(6)),
        lambda poller: poller.quarantine.discard(row_id(6)),
    ),
    "an add of what was passed": (
        more,
        ("quarantine", "add", "orders", "--pk", "id=3"),
        lambda poller: poller.quarantine.add({"id": 3}),
    ),
    "an add of what is not there": (
        more,
        ("quarantine", "add", "orders", "--pk", "id=99"),
        lambda poller: poller.quarantine.add({"id": 99}),
    ),
    "an add without the key": (
        more,
        ("quarantine", "add", "orders", "--pk", "total=3"),
        lambda poller: poller.quarantine.add({"total": 3}),
    ),
    "an add under a lease that is held": (
        more_at_work,
        ("quarantine", "add", "orders", "--pk", "id=7"),
        lambda poller: poller.quarantine.add({"id": 7}),
    ),
    "an add to a checkpoint of another source": (
        elsewhere,
        ("quarantine", "add", "orders", "--pk", "id=7"),
        lambda poller: poller.quarantine.add({"id": 7}),
    ),
    "a replay under a lease that is held": (
        waiting_at_work,
        ("quarantine", "replay", "orders", "--all"),
        lambda poller: poller.quarantine.replay(all=True),
    ),
    "a replay of both versions": (
        waiting,
        ("quarantine", "replay", "orders", "--all", "--current", "--recorded"),
        lambda poller: poller.quarantine.replay(all=True, current=True, recorded=True),
    ),
    "a replay of a row that never waited": (
        waiting,
        ("quarantine", "replay", "orders", "--id", "0" * 16),
        lambda poller: poller.quarantine.replay("0" * 16),
    ),
    "a replay of a poller that is paused": (
        waiting_paused,
        ("quarantine", "replay", "orders", "--all"),
        lambda poller: poller.quarantine.replay(all=True),
    ),
    "a list without a document": (gone, ("quarantine", "list", "orders"), lambda poller: poller.quarantine.list()),
    "a backfill without its handler": (without_its_handler, BACKFILL, lambda poller: poller.backfill(BEGINS, ENDS)),
}


@pytest.mark.guarantee(
    "One worker at a time",
    "A program that delivers a range again has the guards of `poller backfill`, and reports the same",
)
@pytest.mark.guarantee(
    "One worker at a time",
    "A program that pauses, cancels, resumes or resets a poller has the guards of the commands",
)
@pytest.mark.timeout(600)
@each("guard", REFUSED)
def test_both_refuse_alike_and_change_nothing(project: Project, guard: str) -> None:
    prepare, command, call = REFUSED[guard]
    console = again(project)
    prepare(console)
    before = console.everything()

    looks = command[0] == "quarantine" and command[1] in ("list", "show")
    ended = console.run(*command, *(() if looks else ("--yes",)))
    with pytest.raises(PollerError) as raised:
        with_poller(console, call)

    assert console.everything() == before
    assert ended.code == raised.value.exit_code
    assert _as_command(raised.value.message) in ended.error
    for option in ("allow-skip", "break-lease", "retry"):
        assert (f"--{option}" in ended.error) == (f"{option.replace('-', '_')}=True" in str(raised.value)), option


DONE: dict[str, tuple[Callable[[Console], None], tuple[str, ...], Call]] = {
    "pause": (nothing, ("pause", "orders", "--reason", "night"), lambda poller: poller.pause(reason="night")),
    "paused already": (paused, ("pause", "orders"), lambda poller: poller.pause()),
    "cancel": (nothing, ("cancel", "orders", "--reason", "night"), lambda poller: poller.cancel(reason="night")),
    "cancel of a worker": (
        at_work,
        ("cancel", "orders", "--no-wait", "--reason", "night"),
        lambda poller: poller.cancel(reason="night", wait=False),
    ),
    "cancel of what is paused": (paused, ("cancel", "orders"), lambda poller: poller.cancel()),
    "a dry run of a cancel": (at_work, ("cancel", "orders", "--dry-run"), lambda poller: poller.cancel(dry_run=True)),
    "resume": (paused, ("resume", "orders"), lambda poller: poller.resume()),
    "neither paused nor halted": (nothing, ("resume", "orders"), lambda poller: poller.resume()),
    "back": (nothing, to(2), lambda poller: poller.reset(at(2))),
    "to the beginning": (nothing, ("reset-to-beginning", "orders"), lambda poller: poller.reset("beginning")),
    "a skip that is allowed": (behind, (*to(2), "--allow-skip"), lambda poller: poller.reset(at(2), allow_skip=True)),
    "a lease that is broken": (
        at_work,
        ("reset-to-beginning", "orders", "--break-lease"),
        lambda poller: poller.reset("beginning", break_lease=True),
    ),
    "another source": (
        elsewhere,
        ("rebind", "orders"),
        lambda poller: Changes(poller, ChangeOptions(file=poller.origin.file)).make(Rebind()),
    ),
    "a clone": (
        nothing,
        ("clone-checkpoint", "orders", "orders-v2", "--dry-run"),
        lambda poller: clone_checkpoint(
            poller, "orders-v2", ChangeOptions(dry_run=True, file=poller.origin.file), file=Path(poller.origin.file)
        ),
    ),
    "a dry run": (
        nothing,
        ("reset-to-beginning", "orders", "--dry-run"),
        lambda poller: poller.reset("beginning", dry_run=True),
    ),
    "rows that are given up": (
        waiting,
        ("quarantine", "discard", "orders", "--id", row_id(2), "--id", row_id(4)),
        lambda poller: poller.quarantine.discard(row_id(2), row_id(4)),
    ),
    "rows of a key that are given up": (
        waiting,
        ("quarantine", "discard", "orders", "--key", "id=3"),
        lambda poller: poller.quarantine.discard(key={"id": "3"}),
    ),
    "a row that is set aside": (
        more,
        ("quarantine", "add", "orders", "--pk", "id=7"),
        lambda poller: poller.quarantine.add({"id": 7}),
    ),
    "a dry run of a discard": (
        waiting,
        ("quarantine", "discard", "orders", "--all", "--dry-run"),
        lambda poller: poller.quarantine.discard(all=True, dry_run=True),
    ),
    "a dry run of a pause": (nothing, ("pause", "orders", "--dry-run"), lambda poller: poller.pause(dry_run=True)),
}


@pytest.mark.timeout(300)
@each("change", DONE)
def test_both_change_the_same_and_say_the_same(project: Project, change: str) -> None:
    prepare, command, call = DONE[change]
    project.environ["POLLER_OPERATOR"] = "ada@console"
    console = again(project)
    prepare(console)
    document, kept = console.document(), (project.folder / "state.db").read_bytes()

    printed = console.done(*command, "--yes")
    written = console.state()
    (project.folder / "state.db").write_bytes(kept)
    output = with_poller(console, call)

    assert _without_times(output.model_dump(mode="json")) == _without_times(printed)
    if output.changed:
        assert console.state()["checkpoint"]["cursor"] == written["checkpoint"]["cursor"]
        assert console.state()["control"]["paused"] == written["control"]["paused"]
        assert console.state()["control"]["last_change"]["by"] == "ada@console"
    else:
        assert console.document() == document
    if output.backup is not None:
        assert console.document(output.backup) == document, "the backup is exactly what was replaced"


DELIVERED: dict[str, tuple[Callable[[Console], None], tuple[str, ...], Callable[[Poller], BackfillOutput]]] = {
    "a range": (nothing, BACKFILL, lambda poller: poller.backfill(BEGINS, ENDS)),
    "a range in parts": (
        nothing,
        (*BACKFILL, "--parallel", "2", "--as", "cut"),
        lambda poller: poller.backfill(BEGINS, ENDS, parallel=2, name="cut"),
    ),
    "a dry run": (nothing, (*BACKFILL, "--dry-run"), lambda poller: poller.backfill(BEGINS, ENDS, dry_run=True)),
    "done already": (
        replayed,
        (*BACKFILL, "--as", "replay"),
        lambda poller: poller.backfill(BEGINS, ENDS, name="replay"),
    ),
    "once more after a halt": (
        stopped,
        (*BACKFILL, "--as", "replay", "--retry"),
        lambda poller: poller.backfill(BEGINS, ENDS, name="replay", retry=True),
    ),
}


@each("delivery", DELIVERED)
def test_both_deliver_the_same_and_say_the_same(project: Project, delivery: str) -> None:
    prepare, command, call = DELIVERED[delivery]
    project.environ["POLLER_OPERATOR"] = "ada@console"
    console = again(project)
    prepare(console)
    kept = (project.folder / "state.db").read_bytes()

    ended = console.run(*command, "--yes", "--json")
    assert ended.code == 0, ended.err
    there = console.names("state/")
    (project.folder / "state.db").write_bytes(kept)
    output = with_poller(console, call)

    assert output.model_dump(mode="json") == ended.json
    assert console.names("state/") == there
    assert output.finished is not output.dry_run


def test_a_program_says_who_asked_and_why(project: Project) -> None:
    console = ran(project)

    output = with_poller(console, lambda poller: poller.pause(by="deploy 42\n", reason="migration"))

    change = console.state()["control"]["last_change"]
    assert (output.by, change["by"], change["reason"]) == ("deploy 42", "deploy 42", "migration")


def test_a_cursor_of_another_kind_or_key_is_refused(project: Project) -> None:
    console = ran(project)
    before = console.everything()
    for cursor in (
        Cursor(kind="integer+pk", value="7", tiebreaker={"id": 1}),
        at(1).model_copy(update={"tiebreaker": {"no": 1}}),
    ):
        with pytest.raises(FingerprintMismatch, match="it means nothing there"):
            with_poller(console, lambda poller, cursor=cursor: poller.reset(cursor))  # type: ignore[misc]
    with pytest.raises(PollerError, match="neither a Cursor"):
        with_poller(console, lambda poller: poller.reset("end"))  # type: ignore[arg-type]
    assert console.everything() == before


def test_a_handler_may_pause_its_own_poller_but_not_reset_it(project: Project) -> None:
    console = ran(project)
    project.insert(2)

    with load_app(project.folder / "poller.toml", observers=[]) as app:
        poller = app.poller("orders")

        def stop(_: Batch) -> None:
            with pytest.raises(LeaseHeld, match="still runs in this process"):
                poller.reset("beginning", break_lease=True)
            poller.pause(reason="enough")

        result = poller.tick(stop)
        assert result.rows == 2, "the batch in hand is committed"
        assert poller.tick(stop).outcome == "paused"
        assert poller.resume().changed
    assert console.state()["checkpoint"]["cursor"]["tiebreaker"] == {"id": 7}


def test_a_handler_may_cancel_its_own_call(project: Project) -> None:
    console = ran(project)
    project.insert(2)

    with load_app(project.folder / "poller.toml", observers=[]) as app:
        poller = app.poller("orders")

        def stop(_: Batch) -> None:
            assert poller.cancel(reason="enough", by="the handler", wait=False).handler == "unknown"

        result = poller.tick(stop)
        assert (result.outcome, result.error) == ("paused", "cancelled by the handler: enough")
    state = console.state()
    assert (state["lease"]["owner_id"], state["checkpoint"]["cursor"]["tiebreaker"]) == (None, {"id": 5})


def _as_command(message: str) -> str:
    """In the words of the command; how long a lease is live yet, and what the bound is, differ by the moment."""
    for option, word in (("from", "begins"), ("to", "ends"), ("as", "name")):
        message = re.sub(rf"\b{word}='(.*?)'", rf"--{option} \1", message)
        message = re.sub(rf"^{word}:", f"--{option}:", message)
    return message.replace("reason has", "--reason has").partition(" for up to ")[0].partition(": the bound is ")[0]


def _without_times(output: dict[str, Any]) -> dict[str, Any]:
    """What differs from one call to the next."""
    changed = {"id": None, "backup": None, "undo": None}
    if output["undo"] is not None:
        changed["undo"] = output["undo"].rpartition(" --allow-skip")[1]
    owner = output["after"]["owner_id"]
    after = output["after"] | {"owner_id": owner and owner.rpartition("/")[0]}
    return output | changed | {"after": after}
