"""schemas/ is what the models say, and everything that is written holds to it."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from jsonschema import Draft202012Validator

from poller import TickResult
from poller.ports import Bound
from poller.tick import Outcome
from tests.cli.console import Console
from tests.cli.project import NOTING, Project
from tests.support.cases import each
from tests.support.schemas import FILES, validator
from tests.support.services import REPOSITORY


def test_a_changed_or_missing_schema_is_reported_and_fixed(project: Project) -> None:
    assert project.run("schema", "export").code == 0
    changed = project.folder / "schemas" / "state.schema.json"
    written = changed.read_text()
    changed.write_text("{}")
    (project.folder / "schemas" / "config.schema.json").unlink()
    ended = project.run("schema", "export", "--check")
    assert ended.code == 1
    assert "state.schema.json" in ended.error
    assert "config.schema.json" in ended.error
    assert changed.read_text() == "{}", "--check must not write"
    assert project.run("schema", "export").code == 0
    assert changed.read_text() == written


@each("path", FILES)
def test_each_schema_is_a_schema(path: Path) -> None:
    schema = json.loads(path.read_text())
    Draft202012Validator.check_schema(schema)
    assert schema["title"]


def test_outputs_events_and_documents_hold_to_their_schemas(project: Project) -> None:
    project.configure("orders", "invoices", handlers=NOTING, poller="batch_size = 2")
    project.insert(5)
    validator("status").validate(project.run("status", "--json").json)
    events = project.run("run", "--once", "--json").events
    assert {event["event"] for event in events} >= {"lease_acquired", "batch_started", "batch_committed", "tick"}
    (project.folder / "handlers.py").write_text("def handle(batch): raise ValueError('no')")
    project.insert(1)
    events += project.run("run", "--once", "--json").events
    (project.folder / "shop.db").unlink()
    events += project.run("run", "--once", "--json").events
    assert {event["event"] for event in events} >= {"handler_failed", "tick_failed"}
    for event in events:
        validator("run-event").validate(event)
    validator("status").validate(project.run("status", "--json").json)
    documents = project.execute("SELECT body FROM poller_documents WHERE name LIKE 'state/%'", database="state.db")
    assert len(documents) == 2
    for (body,) in documents:
        validator("state").validate(json.loads(body))


@each("outcome", get_args(Outcome))
def test_every_tick_result_holds_to_its_schema(outcome: Any) -> None:
    validator("tick-result").validate(TickResult(outcome=outcome).as_json())
    full = TickResult(
        outcome=outcome, rows=1, batches=1, fencing_token=3, duration_seconds=0.5, lag_seconds=1.5, pending=7,
        bound=Bound(kind="heuristic", value="2026-01-01", age_seconds=5.0, held_by="x", reason="y"), error="z",
        retry_at=datetime(2026, 5, 1, tzinfo=UTC), aside=3, quarantined=0,
    )  # fmt: skip
    validator("tick-result").validate(full.as_json())


@each("path", sorted((REPOSITORY / "examples").rglob("*.toml")))
def test_each_example_holds_to_the_configurations_schema(path: Path) -> None:
    validator("config").validate(tomllib.loads(path.read_text()))


@each(
    "wrong",
    [
        {"app_name": "Shop"},
        {"app_name": "shop", "pollers": {"orders": {"batch_sise": 5}}},
        {"app_name": "shop", "pollers": {"orders": {"batch_size": "many"}}},
        {"app_name": "shop", "pollers": {"orders": {"lease_ttl": "soon"}}},
        {"app_name": "shop", "pollers": {"orders": {"source": {"bound": "perhaps"}}}},
        {"app_name": "shop", "defaults": {"on_poison": "ignore"}},
    ],
)
def test_the_configurations_schema_refuses_what_the_loader_refuses(wrong: dict[str, Any]) -> None:
    wrong.setdefault("pollers", {"orders": {}})
    assert not validator("config").is_valid(wrong)


@each(
    ("text", "valid"),
    [
        ("include = ['pollers.d/*.toml']", True),
        ("", False),
        ("include = 'pollers.d/*.toml'", False),
        ("[templates.fast]\nschedule = '* * * * * *'\n[pollers.orders]\ntemplate = 'fast'", True),
        ("[templates.fast]\nshedule = '* * * * * *'\n[pollers.orders]\ntemplate = 'fast'", False),
        ("[templates.fast]\ntemplate = 'fast'\n[pollers.orders]", False),
        ("[defaults]\ntemplate = 'fast'\n[pollers.orders]", False),
    ],
)
def test_the_configurations_schema_knows_templates_and_include(text: str, valid: bool) -> None:
    assert validator("config").is_valid({"app_name": "shop", **tomllib.loads(text)}) is valid


@each(
    ("text", "valid"),
    [
        ("", True),
        ("[pollers.orders]\ntemplate = 'fast'\n[templates.fast.source]\nurl = '%DB%'", True),
        ("[pollers.orders]\nbatch_sise = 5", False),
        ("[state]\nstore = 'sql'", False),
        ("include = ['more.toml']", False),
    ],
)
def test_an_included_file_has_a_schema_of_its_own(text: str, valid: bool) -> None:
    assert validator("config-included").is_valid(tomllib.loads(text)) is valid


def test_the_configurations_schema_accepts_settings_for_any_value() -> None:
    text = '[pollers.orders]\nbatch_size = "%SIZE%"\nerror_text = "%SHOW%"\nlease_ttl = "%TTL%"\n'
    validator("config").validate({"app_name": "%APP%", **tomllib.loads(text)})


@each("directory", ["poller.toml/below", "n" * 300, "a\0b", "caf\udce9"])
def test_a_folder_that_cannot_be_is_an_error_of_one_line(project: Project, directory: str) -> None:
    project.configure("orders")
    ended = Console(project).run("schema", "export", "--directory", f"{project.folder}/{directory}")
    assert ended.code == 2, ended.err
    assert ended.error
