"""Microsoft's own Python worker, without the host: it indexes a folder and invokes its functions.

    python tests/functions/worker.py FOLDER FUNCTION [FUNCTION ...]

prints one JSON line: what was indexed, or why not, and for each function named how its invocation ended. The package
`azure-functions-runtime` is what runs a Python app in Azure from Python 3.13 on. Only its messages are stood in for:
they are made by the gRPC half, which is not published.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from types import SimpleNamespace
from typing import Any


class BindingInfo(SimpleNamespace):
    """A message; the numbers are those of its enumerations."""

    in_, out, inout, undefined = 0, 1, 2, 0


WIRE = SimpleNamespace(BindingInfo=BindingInfo, RpcFunctionMetadata=SimpleNamespace, RpcRetryOptions=SimpleNamespace)


def main(folder: str, *names: str) -> dict[str, Any]:
    """Index the folder, then invoke the functions one after another; `NAME=TEXT` with a message from its queue."""
    from azure_functions_runtime import handle_event  # type: ignore[import-not-found,unused-ignore]
    from azure_functions_runtime.bindings.datumdef import Datum  # type: ignore[import-not-found,unused-ignore]
    from azure_functions_runtime.bindings.meta import load_binding_registry  # type: ignore[import-not-found,unused-ignore]
    from azure_functions_runtime.native_invocation import invocation_request_native  # type: ignore[import-not-found,unused-ignore]
    from azure_functions_runtime.utils.tracing import serialize_exception_as_str  # type: ignore[import-not-found,unused-ignore]

    sys.path.insert(0, folder)
    handle_event.protos = WIRE
    load_binding_registry()
    try:
        handle_event.load_function_metadata(folder, "worker_init_request")
    except Exception as error:  # noqa: BLE001 - what the worker answers the host with
        return {"failure": serialize_exception_as_str(error)}
    indexed = handle_event._metadata_result or []
    timer = Datum(json.dumps({"IsPastDue": False, "Schedule": {}, "ScheduleStatus": None}), "json")

    async def invoke(call: str) -> dict[str, Any]:
        name, _, text = call.partition("=")
        (function,) = (f for f in indexed if f.name == name)
        (trigger,) = (one["name"] for one in map(json.loads, function.raw_bindings) if one["type"].endswith("Trigger"))
        ok, returned, _, error, trace = await invocation_request_native(
            f"invocation-of-{name}", function.function_id, [(trigger, Datum(text, "string") if text else timer)], {}
        )
        return {"ok": ok, "returned": returned, "error": error, "trace": trace}

    async def all_of_them() -> list[dict[str, Any]]:
        return [await invoke(name) for name in names]

    return {
        "indexed": {f.name: [json.loads(b) for b in f.raw_bindings] for f in indexed},
        "invocations": asyncio.run(all_of_them()),
    }


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    print(json.dumps(main(*sys.argv[1:])))
