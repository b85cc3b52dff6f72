"""`poller dashboard`: the status page on this machine, beside whatever works elsewhere."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess

import pexpect

from tests.cli.project import NOTING, Project, end
from tests.support.http import Received, received, request, session_of
from tests.support.schemas import validator


def ask(port: int, path: str, key: str | None = None) -> Received:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request(path, key=key))
        given = received(connection)
    assert given is not None
    return given


def port_of(process: subprocess.Popen[str]) -> int:
    """As its one line on stdout says."""
    assert process.stdout is not None
    line = json.loads(process.stdout.readline())
    validator("dashboard").validate(line)
    address, path = line["url"].removeprefix("http://127.0.0.1:").split("/", 1)
    assert path == "api/dashboard"
    return int(address)


def test_the_page_is_served_until_a_signal_and_runs_no_poller(project: Project) -> None:
    project.configure("orders", handlers=NOTING, poller='schedule = "* * * * * *"')
    project.insert(3)
    process = project.start("dashboard", "--json")
    port = port_of(process)

    listed, one, nobody = (ask(port, f"/api/dashboard{path}") for path in ("", "/orders", "/nobody"))
    process.send_signal(signal.SIGTERM)
    ended = end(process)

    assert (listed.status, one.status, nobody.status) == (200, 200, 404)
    assert b'href="dashboard/orders"' in listed.body
    assert (ended.code, ended.out) == (0, "")
    assert project.lines("seen") == [], "it delivers nothing"


def test_a_terminal_shows_a_key_for_changes_of_this_run(project: Project) -> None:
    project.configure()
    project.run("run", "--once")
    environ = os.environ | {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "COLUMNS": "200"}
    terminal = project.on_terminal("dashboard", "--no-browser", "--port", "0", env=environ, timeout=60)
    terminal.expect(r"http://127\.0\.0\.1:(\d+)/api/dashboard\r?\n")
    port = int(terminal.match[1])
    terminal.expect(r"The key for changes, until this ends: (\S{43})\r?\n")
    key = str(terminal.match[1])
    body = json.dumps({"change": "pause", "name": "orders", "by": "ana"})
    page = ask(port, "/api/dashboard/orders")
    lines = [
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"Origin: http://127.0.0.1:{port}",
        *(f"{name}: {value}" for name, value in session_of(page.headers, page.body).items()),
        f"Authorization: Bearer {key}",
    ]
    asked = request("/api/dashboard/orders/changes", *lines, method="POST", host=f"127.0.0.1:{port}")
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(asked + body.encode())
        given = received(connection)
    terminal.sendintr()
    terminal.expect(pexpect.EOF)

    assert given is not None
    assert given.status == 200, given.body
    assert json.loads(project.run("status", "--json").out)["pollers"][0]["paused"] is True


def test_without_a_terminal_no_key_is_made(project: Project) -> None:
    project.configure()
    process = project.start("dashboard", "--json", "--port", "0")
    page = ask(port_of(process), "/api/dashboard/orders")
    process.terminate()

    assert b"POLLER_HTTP_CHANGES_KEY" in page.body
    assert "set-cookie" not in page.headers
    assert end(process).code == 0
