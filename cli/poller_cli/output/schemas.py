"""JSON Schemas of everything that poller reads and writes, generated from the models that read and write it."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import fields
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, TypeAdapter

from poller import observability
from poller.admin.change_records import UndoListOutput
from poller.admin.change_result import ChangeOutput
from poller.admin.health import Health
from poller.admin.history import HistoryOutput
from poller.admin.quarantine.listing import QuarantineOutput, QuarantineShowOutput
from poller.admin.quarantine.replay import QuarantineReplayOutput
from poller.backfill.result import BackfillOutput
from poller.backfill.watch import WatchOutput
from poller.config import AppConfig, PollerConfig, PruneOptions, SourceConfig, StateOptions
from poller.config.includes import SHARED
from poller.config.relays import RELAYS
from poller.config.types import NAME_PATTERN, size_text
from poller.dispatch.result import DispatchOutput
from poller.journal.quarantine.record import QuarantineRecord
from poller.model.checkpoint_file import CheckpointExport
from poller.model.document import State
from poller.model.durations import format_duration
from poller.observability import PollerEvent
from poller.tick.result import TickOutput
from poller_cli.output import models, peek_report

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def all_schemas() -> dict[str, dict[str, Any]]:
    """Every schema by its file's name."""
    return {
        "backfill.schema.json": _output(BackfillOutput),
        "capture.schema.json": _output(models.CaptureOutput),
        "change.schema.json": _output(ChangeOutput),
        "check.schema.json": _output(models.CheckOutput),
        "checkpoint.schema.json": _finished(
            "A checkpoint as poller checkpoint export writes it",
            CheckpointExport.model_json_schema(mode="serialization"),
        ),
        "config.schema.json": config_schema(),
        "config-included.schema.json": _finished("A file that poller.toml includes", _included()),
        "dashboard.schema.json": _output(models.DashboardOutput),
        "demo.schema.json": _output(models.DemoOutput),
        "demo-poison.schema.json": _output(models.PoisonDemoOutput),
        "dispatch.schema.json": _output(DispatchOutput),
        "health.schema.json": _output(Health),
        "history.schema.json": _output(HistoryOutput),
        "init.schema.json": _output(models.InitOutput),
        "peek.schema.json": _output(peek_report.PeekOutput),
        "prune.schema.json": _output(models.PruneOutput),
        "quarantine-list.schema.json": _output(QuarantineOutput),
        "quarantine-record.schema.json": _finished(
            "The record of a row that was passed without success", QuarantineRecord.model_json_schema(mode="validation")
        ),
        "quarantine-replay.schema.json": _output(QuarantineReplayOutput),
        "quarantine-show.schema.json": _output(QuarantineShowOutput),
        "recheck.schema.json": _output(models.RecheckOutput),
        "run-event.schema.json": _events(),
        "schema-export.schema.json": _output(models.SchemaExportOutput),
        "sink-ddl.schema.json": _output(models.SinkDdlOutput),
        "state.schema.json": _finished("The state document of a poller", State.model_json_schema(mode="validation")),
        "status.schema.json": _output(models.StatusOutput),
        "tick-result.schema.json": _output(TickOutput),
        "undo-list.schema.json": _output(UndoListOutput),
        "watch.schema.json": _output(WatchOutput),
    }


def config_schema() -> dict[str, Any]:
    """That of `poller.toml`."""
    return _finished("The configuration file poller.toml", _config())


def render(schema: dict[str, Any]) -> str:
    """The text of a schema's file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _finished(title: str, schema: dict[str, Any]) -> dict[str, Any]:
    _plain(schema)
    return {"$schema": DIALECT, **schema, "title": title}


def _plain(node: Any) -> None:
    """Descriptions on one line, and no titles that only repeat a key's name."""
    if isinstance(node, list):
        for item in node:
            _plain(item)
    elif isinstance(node, dict):
        if isinstance(node.get("description"), str):
            node["description"] = " ".join(node["description"].split())
        if isinstance(node.get("title"), str):
            del node["title"]
        for item in node.values():
            _plain(item)


def _output(model: type[BaseModel]) -> dict[str, Any]:
    title = (model.__doc__ or "").partition("\n")[0].rstrip(".").replace("`", "")
    return _finished(title, model.model_json_schema(mode="serialization"))


def _config() -> dict[str, Any]:
    """The file's schema: as the model, with [defaults] and with %NAME% allowed wherever no text is expected."""
    schema = AppConfig.model_json_schema(mode="validation")
    definitions = schema["$defs"]
    relays = [entry.settings for entry in RELAYS.values()]
    models: list[type[BaseModel]] = [PollerConfig, SourceConfig, StateOptions, PruneOptions, *relays]
    for model in models:
        _as_written(definitions[model.__name__]["properties"], model)
    for name in ("PollerConfig", "SourceConfig"):
        optional = deepcopy(definitions[name])
        optional.pop("required", None)
        definitions[f"Default{name}"] = optional
    shared = definitions["DefaultPollerConfig"]
    del shared["properties"]["template"]
    shared["properties"]["source"] = {"$ref": "#/$defs/DefaultSourceConfig"}
    shared["description"] = "Any key of a poller, for the pollers that do not set it."
    # What [defaults] gives is not missing in a poller: the loader checks the two together.
    for name in ("PollerConfig", "SourceConfig", *(model.__name__ for model in relays)):
        definitions[name].pop("required", None)
    schema["properties"]["defaults"] = {"$ref": "#/$defs/DefaultPollerConfig"}
    schema["properties"]["templates"] = {
        "type": "object",
        "description": "Keys that some pollers share, by a name that each gives as its `template`.",
        "patternProperties": {NAME_PATTERN: {"$ref": "#/$defs/DefaultPollerConfig"}},
    }
    schema["required"].remove("pollers")
    schema["anyOf"] = [{"required": ["pollers"]}, {"required": ["include"]}]
    _allow_settings(schema)
    return schema


def _included() -> dict[str, Any]:
    """The schema of a file that poller.toml includes."""
    whole = _config()
    kinds = ("PollerConfig", "SourceConfig", "PruneOptions", *(entry.settings.__name__ for entry in RELAYS.values()))
    properties = {name: whole["properties"][name] for name in SHARED}
    del properties["pollers"]["minProperties"]
    return {
        "$defs": {name: kind for name, kind in whole["$defs"].items() if name.endswith(kinds)},
        "additionalProperties": False,
        "properties": properties,
        "type": "object",
    }


def _as_written(properties: dict[str, Any], model: type[BaseModel]) -> None:
    """As people write TOML: durations like `4m30s`, sizes like `8MB`, and no null, which TOML does not have."""
    for name, field in model.model_fields.items():
        written = properties[field.alias or name]
        if isinstance(field.default, timedelta):
            written["default"] = format_duration(field.default)
        elif isinstance(field.default, int) and "750KB" in written.get("examples", ()):
            written["default"] = size_text(field.default)
        if field.default is None:
            written.pop("default", None)
        kinds = [kind for kind in written.get("anyOf", ()) if kind != {"type": "null"}]
        if len(kinds) == 1:
            del written["anyOf"]
            written.update(kinds[0])


_SETTING = {"type": "string", "pattern": "%[A-Z_][A-Z0-9_]*%"}


def _allow_settings(node: Any) -> None:
    """Let every value that must look like something also be taken from a setting."""
    if isinstance(node, list):
        for item in node:
            _allow_settings(item)
    elif isinstance(node, dict):
        for name, child in list(node.items()):
            _allow_settings(child)
            if name == "properties":
                for key, value in child.items():
                    if _constrained(value):
                        about = {k: value.pop(k) for k in ("title", "description", "default") if k in value}
                        child[key] = {**about, "anyOf": [value, _SETTING]}


def _constrained(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    return kind in {"integer", "number", "boolean"} or (kind == "string" and ("enum" in value or "pattern" in value))


def _events() -> dict[str, Any]:
    """One line of `poller run --json`: its `event` says which fields it has."""
    kinds = [
        kind
        for kind in vars(observability).values()
        if isinstance(kind, type) and issubclass(kind, PollerEvent) and "name" in vars(kind)
    ]
    variants = [_event(kind) for kind in sorted(kinds, key=lambda kind: kind.name) if kind is not PollerEvent]
    return _finished("One event of poller run --json", {"oneOf": variants})


def _event(kind: type[PollerEvent]) -> dict[str, Any]:
    schema = TypeAdapter(kind).json_schema(mode="serialization")
    schema["properties"] = {"event": {"const": kind.name}, **schema["properties"]}
    schema["required"] = ["event", *(item.name for item in fields(kind))]
    schema["additionalProperties"] = False
    return schema
