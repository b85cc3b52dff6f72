"""`poller demo`: the show that anybody can run."""

from __future__ import annotations

import json

from jsonschema import Draft202012Validator

from tests.cli.project import Project
from tests.support.services import REPOSITORY


def test_every_flight_arrives_and_only_the_killed_batch_comes_twice(project: Project) -> None:
    ended = project.run("demo", "--json", seconds=110)
    assert ended.code == 0, ended.err
    table = ended.json
    Draft202012Validator(json.loads((REPOSITORY / "schemas" / "demo.schema.json").read_text())).validate(table)
    assert table["rows_written"] == table["rows_delivered"] == 27_004
    assert table["missing"] == 0
    assert 0 < table["delivered_twice"] == table["killed_batch_rows"] <= 400
    assert table["twice_outside_killed_batch"] == 0
    assert table["token_after_takeover"] == table["token_before_kill"] + 1
    assert "SIGKILL" in ended.err
    assert list(project.folder.iterdir()) == [], "everything stays in a folder of its own"
