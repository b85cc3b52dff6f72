"""`poller run --log-format json`: each line of stderr is an object, with the ids of the current span."""

from __future__ import annotations

import io
import json
import logging
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from poller.observability import HandlerFailed
from poller_cli.output import json_log, log
from poller_cli.output.events import EventPrinter
from poller_cli.terminal import printing
from tests.support.shop_folder import write_shop

HANDLERS = """
import logging
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())

def on_orders(batch):
    logging.getLogger("shop").warning("paid %s", "a\\n2026 ERROR \\x1b[31m\\x7f\\u2028 password=hunter2")
    raise ValueError("no \\x9b stock, password=hunter2")
"""


def test_each_line_is_an_object_with_the_ids_of_its_span(tmp_path: Path) -> None:
    write_shop(tmp_path, HANDLERS)
    command = [sys.executable, "-m", "poller_cli.main", "run", "--once", "--log-format", "json"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)

    assert ended.returncode == 1
    assert b"hunter2" not in ended.stderr
    assert all(32 <= byte < 127 or byte == 10 for byte in ended.stderr)
    lines = [json.loads(line) for line in ended.stderr.decode().splitlines()]
    by_event = {line.get("event", line["logger"]): line for line in lines}
    logged, failed, tick = by_event["shop"], by_event["handler_failed"], by_event["tick"]
    assert logged["message"].isprintable() or logged["message"].replace("\n", "").isprintable()
    assert (logged["level"], failed["level"], failed["poller"]) == ("WARNING", "ERROR", "orders")
    assert "on_orders" in failed["trace"]
    assert len(logged["trace_id"]) == 32
    assert logged["trace_id"] == failed["trace_id"] == tick["trace_id"]
    assert len({logged["span_id"], tick["span_id"]}) == 2
    assert "message" in lines[-1], "the console's own last word is an object too"


NAMED = """
import logging

NAME = "shop\\n2026-04-07 ERROR  FAKE\\x1b[2J password=hunter2 " + "x" * 5_000

def on_orders(batch):
    logging.getLogger(NAME).warning("paid\\ntwice")
"""


@pytest.mark.parametrize("form", [[], ["--log-format", "json"]], ids=["text", "json"])
def test_a_loggers_name_makes_no_line_and_shows_no_secret(tmp_path: Path, form: list[str]) -> None:
    """A library may name its loggers after what it works on."""
    write_shop(tmp_path, NAMED)
    command = [sys.executable, "-m", "poller_cli.main", "run", "--once", *form]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=60)
    said = ended.stderr.decode()
    assert "paid" in said
    assert "hunter2" not in said
    assert "\x1b" not in said
    assert "x" * 300 not in said
    assert not [line for line in said.splitlines() if line.startswith("2026-04-07 ERROR  FAKE")]


NOISY = """
import logging, threading, warnings

def fail():
    raise ValueError("a row, password=hunter2")

def on_orders(batch):
    warnings.warn("old, password=hunter2", UserWarning)
    logging.getLogger("shop").warning("paid %d", "ana\x1b[2J password=hunter2")
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
"""


def test_all_else_that_is_said_is_an_object_too(tmp_path: Path) -> None:
    write_shop(tmp_path, NOISY)
    command = [sys.executable, "-m", "poller_cli.main", "run", "--log-format", "json", "--http", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        lines = []
        try:
            for line in process.stderr:
                lines.append(json.loads(line))
                if lines[-1].get("event") == "tick":
                    process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()

    text = "".join(json.dumps(line) for line in lines)
    assert "hunter2" not in text
    for part in ("UserWarning: old", "'paid %d'", "ValueError: a row", "/api/dashboard", "stopping after the batch"):
        assert part in text


def test_each_line_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """What threads say at once would stand in one line, or leave an empty one."""
    written: list[str] = []
    stream = io.StringIO()
    monkeypatch.setattr(stream, "write", written.append)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(logging.getLogger("shop"), "handlers", [log._CurrentStderr()])
    logging.getLogger("shop").warning("paid")
    failed = HandlerFailed(
        poller="orders", at=datetime.now(UTC), owner_id="w", batch_id="b", attempt=1, error="E", trace="a\nb",
        fencing_token=1,
    )  # fmt: skip
    for as_json in (True, False):
        printing.say_as(json_log.said if as_json else None)
        EventPrinter(json_lines=None, debug=True, quiet_errors=False, json_log=as_json)(failed)
        printing.notice("one")
        printing.complain("two")
        printing.show_trace("a\nb\n")
    assert len(written) == 9
    assert all(one.endswith("\n") for one in written)
