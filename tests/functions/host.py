"""What the Functions host and its Python worker do with an app, through `azure.functions` alone.

    python -m tests.functions.host FOLDER FUNCTION

loads `function_app.py` of a folder in a process of its own, invokes one timer function once and ends with 0, or prints
the exception's type and text and ends with 1.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import azure.functions as func
from azure.functions import meta
from azure.functions.decorators.function_app import Function


def load(folder: Path) -> func.FunctionApp:
    """Import `function_app.py` as the worker does, and find the app in it. Each call makes a new one."""
    sys.modules.pop("function_app", None)
    spec = importlib.util.spec_from_file_location("function_app", folder / "function_app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["function_app"] = module
    spec.loader.exec_module(module)
    apps = [value for value in vars(module).values() if isinstance(value, func.FunctionApp)]
    assert len(apps) == 1, "the worker refuses a module with more than one app"
    return apps[0]


def functions(app: func.FunctionApp) -> dict[str, Function]:
    """The app's functions by name."""
    return {str(function.get_function_name()): function for function in app.get_functions()}


def bindings(function: Function) -> list[dict[str, Any]]:
    """What the worker reports to the host about a function: its bindings as JSON."""
    return [json.loads(raw) for raw in function.get_raw_bindings()]


class Worker:
    """One worker process's view of an app: indexed once, invoked from any thread."""

    def __init__(self, app: func.FunctionApp) -> None:
        self.functions = functions(app)

    def ask(
        self,
        name: str,
        url: str = "https://shop.azurewebsites.net/api/health",
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        route: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> tuple[int, dict[str, str], bytes]:
        """A request that the host has routed to a function: status, headers in small letters, body."""
        trigger, output = bindings(self.functions[name])
        words = {key: meta.Datum(text, "string") for key, text in {"method": method, "url": url}.items()}
        texts = {
            part: {key: meta.Datum(text, "string") for key, text in (found or {}).items()}
            for part, found in {"headers": headers, "params": route, "query": None}.items()
        }
        data = meta.Datum({**words, **texts, "body": meta.Datum(body, "bytes")}, "http")
        registry: Any = meta.get_binding_registry()  # type: ignore[no-untyped-call]
        request = registry.get(trigger["type"]).decode(data, trigger_metadata=None)
        returned = asyncio.run(self.functions[name].get_user_function()(**{trigger["name"]: request}))
        answer = registry.get(output["type"]).encode(returned, expected_type=None).value
        cookies = [("set-cookie", one.output(header="").strip()) for one in answer["cookies"] or ()]
        return (
            int(answer["status_code"].value),
            dict([*((key.lower(), datum.value) for key, datum in answer["headers"].items()), *cookies]),
            answer["body"].value,
        )

    def invoke(self, name: str, *, past_due: bool = False) -> object:
        """Fire a timer: the host's JSON is decoded by the binding's own converter and handed over by name."""
        (binding,) = bindings(self.functions[name])
        message = {
            "Schedule": {"AdjustForDST": True},
            "ScheduleStatus": {"Last": "2026-01-02T03:04:05+00:00", "Next": "2026-01-02T03:04:15+00:00"},
            "IsPastDue": past_due,
        }
        converter = meta.get_binding_registry().get(binding["type"])  # type: ignore[no-untyped-call]
        timer = converter.decode(meta.Datum(json.dumps(message), "json"), trigger_metadata=None)
        return self.functions[name].get_user_function()(**{binding["name"]: timer})


def main(folder: str, name: str) -> int:
    """One invocation in this process."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    try:
        assert Worker(load(Path(folder))).invoke(name) is None
    except Exception as error:  # noqa: BLE001 - shown, as the host shows it
        print(f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
