"""Documents that another wrote: a foreign value in any one field, another poller's whole document. No command fails
over it, and the other poller is still shown."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.console import STATE, Console, again, exported, ran
from tests.cli.project import Project
from tests.support.cases import each
from tests.support.foreign import VALUES, paths, with_value

HEALTHY = "state/shop/healthy.json"
BOUND = {
    "kind": "observed",
    "clock": "2026-01-01T00:00:00.000000Z",
    "value": "2026-01-01 00:00:00",
    "at": "2026-01-01T00:00:00+00:00",
    "limits": True,
    "reset": 3,
    "below": {"checkpoint": "7", "next": "5"},
    "kept_at": "2026-01-01T00:00:00.000000Z",
    "samples": {
        "server": "s", "sampled_at": "2026-01-01T00:00:00+00:00", "open": {"1": None},
        "counts": [["2026-01-01T00:00:00+00:00", 7]], "seen": [["2026-01-01T00:00:00+00:00", "7"]],
        "samples": {"sampled_at": "2026-01-01T00:00:00+00:00"},
    },
}  # fmt: skip
CHANGE: dict[str, Any] = {
    "id": "c1",
    "kind": "reset-to-cursor",
    "by": "ann",
    "reason": "r",
    "at": "2026-01-01T00:00:00.000000Z",
}


CHANGE |= {side: {"cursor": None, "fencing_token": 1, "generation": 0, "paused": False} for side in ("before", "after")}


FILE = "kept.json"
SHOWN = (["status"], ["status", "--json"], ["watch", "--json", "--count", "1"], ["run", "--once"])
"""What shows every poller."""
ALONE = (
    ["run", "orders", "--once"],
    ["pause", "orders", "--yes"],
    ["resume", "orders", "--yes"],
    ["history", "orders"],
    ["peek", "orders"],
    ["check"],
    ["recheck", "orders", "--since", "1h"],
    ["rebind", "orders", "--yes", "--break-lease"],
    ["checkpoint", "export", "orders"],
    ["checkpoint", "clone", "orders", "copy", "--yes", "--overwrite", "--break-lease"],
    ["reset-to-beginning", "orders", "--yes", "--break-lease"],
    ["reset-to-checkpoint", "orders", FILE, "--yes", "--break-lease", "--allow-skip"],
    ["backfill", "orders", "--from", "2026-01-01 00:00:00", "--to", "2026-01-02 00:00:00", "--dry-run"],
)


class Tampered:
    """A project of two pollers, and the full document of one of them."""

    def __init__(self, folder: Path) -> None:
        self.project = Project(folder)
        self.project.configure("orders", "healthy", poller='audit_window = "2h"')
        for table in ("orders", "healthy"):
            self.project.insert(5, table=table)
        self.console = Console(self.project)
        assert self.console.run("run", "--once").code == 0
        self.file = str(folder / FILE)
        assert self.console.run("export-checkpoint", "orders", self.file).code == 0
        self.full: dict[str, Any] = json.loads(self.console.document())
        self.full["bound"] = BOUND
        self.full["control"] |= {"by": "ann", "reason": "r", "at": CHANGE["at"], "last_change": CHANGE}
        error = {"type": "ValueError", "message": "no", "at": CHANGE["at"], "batch_id": "b"}
        self.full["delivery"] |= {"attempts": 1, "last_error": error}
        self.full["lease"] |= dict.fromkeys(("acquired_at", "heartbeat_at", "expires_at"), CHANGE["at"])
        self.full["lease"]["owner_id"] = "shop/elsewhere"
        self.healthy = self.console.document(HEALTHY)
        self.paths = list(paths(self.full))

    def hold(self, path: tuple[str | int, ...], value: Any, command: list[str]) -> None:
        """The law, for one value in one field and one command."""
        self.console.put(json.dumps(with_value(self.full, path, value)), STATE)
        self.console.put(self.healthy, HEALTHY)
        command = [self.file if word == FILE else word for word in command]
        ended = self.console.run(*command)
        shown = f"{'.'.join(map(str, path))} = {value!r:.80}, {' '.join(command)}: {ended.code}\n"
        shown += f"{ended.out}\n{ended.err}"
        assert ended.code in {0, 1, 2, 3, 4}, shown
        assert "fault in poller" not in ended.err, shown
        assert "Error:" not in ended.err.replace("ValueError: no", ""), shown
        lines = ended.err.splitlines()
        if command[0] not in ("run", "recheck"):
            assert all(line.startswith("poller: ") for line in lines), shown
        if command in SHOWN:
            assert any("healthy" in line for line in (ended.out + ended.err).splitlines()), shown
            self._shows_the_healthy_one(command, ended.out, shown)

    def _shows_the_healthy_one(self, command: list[str], out: str, shown: str) -> None:
        if command[0] == "run":
            return
        if "--json" not in command:
            assert re.search(r"^healthy +idle .* 0 ", out, re.MULTILINE), shown
            return
        pollers = [one.get("status", one) for one in json.loads(out)["pollers"]]
        (healthy,) = [one for one in pollers if one["name"] == "healthy"]
        assert (healthy["error"], healthy["cursor"]["tiebreaker"]) == (None, {"id": 5}), shown


@pytest.fixture(scope="module")
def tampered(tmp_path_factory: pytest.TempPathFactory) -> Tampered:
    return Tampered(tmp_path_factory.mktemp("foreign"))


@pytest.mark.guarantee(
    "Hostile and broken input",
    "A foreign value in one poller's document hides no other poller and fails no command",
)
@each(
    ("path", "value"),
    [
        (("bound", "clock"), "2026-01-01T00:00:00"),
        (("bound", "at"), "0001-01-01T00:00:00Z"),
        (("bound", "samples"), [[1]]),
        (("control", "last_change", "before"), {"cursor": 1}),
        ((), [[1]]),
    ],
)
@each("command", SHOWN)
def test_it_hides_no_other_poller(
    tampered: Tampered, path: tuple[str | int, ...], value: Any, command: list[str]
) -> None:
    tampered.hold(path, value, command)


def test_of_a_few_fields_no_command_fails(tampered: Tampered) -> None:
    chance = random.Random(27)
    for _ in range(10):
        tampered.hold(chance.choice(tampered.paths), chance.choice(VALUES), chance.choice([*SHOWN, *ALONE]))


@pytest.mark.parametrize(
    "every",
    [
        pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(600)]),
        pytest.param(1, marks=[pytest.mark.prove, pytest.mark.timeout(3600)]),
    ],
)
def test_of_every_field_no_command_fails(tampered: Tampered, every: int) -> None:
    """Every value in each field; of the pairs every fiftieth in the soak."""
    chance = random.Random(28)
    for path, value in [(path, value) for path in tampered.paths for value in VALUES][::every]:
        tampered.hold(path, value, chance.choice(SHOWN))
        tampered.hold(path, value, chance.choice(ALONE))


EXTREMES = ("0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59.9999999-05:00")


@each("text", EXTREMES)
def test_every_command_accepts_any_time_in_the_document(project: Project, text: str) -> None:
    console = again(project)
    state = console.state()
    times = dict.fromkeys(("acquired_at", "heartbeat_at", "expires_at"), text)
    console.edit(
        lease=state["lease"] | times | {"owner_id": "funcapp/x", "ttl_seconds": None, "released_at": None},
        checkpoint=state["checkpoint"] | {"updated_at": text},
        control=state["control"] | {"paused": True, "at": text, "by": "ada"},
        history=[{**one, "at": text} for one in state["history"]],
    )
    assert state["history"]
    told = console.run("history", "orders")
    assert (told.code, "committed" in told.out) == (0, True)
    shown = console.run("status", "-v")
    assert shown.code == 0
    assert ("0001-01-01 00:00:00Z" if text.startswith("0001") else "9999-12-31 23:59:59Z") in shown.out
    assert console.run("peek", "orders").code == 0
    console.done("resume", "orders", "--yes")
    assert console.state()["checkpoint"]["updated_at"] == text
    output = console.done("reset-to-beginning", "orders", "--yes", "--break-lease")
    assert output.get("starts_after_seconds", 0) <= 65


def test_the_command_that_the_error_names_fixes_it(project: Project) -> None:
    console = ran(project)
    file = exported(console)
    project.execute(
        'UPDATE poller_documents SET body = replace(body, \'"poller_name": "orders"\', \'"poller_name": "others"\')'
        " WHERE name = 'state/shop/orders.json'",
        database="state.db",
    )
    refused = console.run("run", "--once")
    assert refused.code == 1
    assert "belongs to the poller 'others'" in refused.err
    assert "poller reset-to-checkpoint orders FILE" in refused.err
    assert console.run("reset-to-checkpoint", "orders", file, "--yes").code == 0
    project.insert(2)
    assert console.run("run", "--once").code == 0
