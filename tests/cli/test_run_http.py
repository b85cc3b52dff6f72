"""`poller run --http`: endpoints beside pollers at work."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.cli.project import NOTING, Project, end
from tests.support.cases import each
from tests.support.http import Received, received, request, send
from tests.support.services import wait_until

TOKEN = "a-token-of-32-characters-exactly"


def port_of(process: subprocess.Popen[str]) -> int:
    """As it is printed, once it is there."""
    assert process.stderr is not None
    line = process.stderr.readline()
    here = r"http://127\.0\.0\.1:(\d+)/api"
    found = re.search(rf"^poller: Health is answered at {here}/health, the dashboard is {here}/dashboard$", line)
    assert found is not None, line
    return int(found[1])


def ask(port: int, path: str, key: str | None = None) -> Received:
    given = send(port, request(path, key=key))
    assert given is not None
    return given


def test_pollers_at_work_answer_until_a_signal_ends_them(project: Project) -> None:
    project.configure("orders", handlers=NOTING, poller='schedule = "* * * * * *"')
    project.insert(3)
    (project.folder / "wait").touch()
    process = project.start("run", "--json", "--http", "0")
    port = port_of(process)
    wait_until(lambda: project.lines("started"))

    assert (ask(port, "/api/health").status, ask(port, "/api/pollers/nobody").status) == (200, 404)
    assert ask(port, "/api/pollers/orders").json["name"] == "orders", "only this machine can ask, so there is no token"
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    assert any("stopping" in line for line in process.stderr)
    assert ask(port, "/api/health").status == 200, "it answers while the batch in hand is finished"
    (project.folder / "wait").unlink()
    ended = end(process)

    assert ended.code == 0, ended.err
    assert len(project.lines("seen")) == 3
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10)


def test_callers_that_hold_connections_hold_no_poller(project: Project) -> None:
    project.configure("orders", handlers=NOTING, poller='schedule = "* * * * * *"')
    process = project.start("run", "--json", "--http", "0")
    port = port_of(process)
    slow = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(100)]
    for one in slow:
        one.sendall(b"GET /api/health HTTP/1.1\r\nHost: ")

    project.insert(3)
    wait_until(lambda: len(project.lines("seen")) == 3)
    threads = len(list(Path(f"/proc/{process.pid}/task").iterdir()))
    process.send_signal(signal.SIGTERM)
    ended = end(process)

    assert ended.code == 0, ended.err
    assert threads <= 32 + 16
    for one in slow:
        one.close()


def test_with_a_token_details_need_it(project: Project) -> None:
    project.configure("orders", handlers=NOTING, poller='schedule = "* * * * * *"')
    (project.folder / "token").write_text(TOKEN + "\n")
    (project.folder / "token").chmod(0o600)
    process = project.start("run", "--http", "0", "--http-token-file", "token")
    port = port_of(process)

    found = [ask(port, "/api/pollers", key).status for key in (None, TOKEN[:-1], TOKEN)]
    process.send_signal(signal.SIGTERM)
    ended = end(process)

    assert found == [401, 401, 200]
    assert TOKEN not in ended.out + ended.err


@pytest.mark.guarantee("Who may see and do what", "Nothing listens on the network without a token")
@each(
    ("options", "environ", "says"),
    [
        (
            ["--http", "0.0.0.0:0"],
            {},
            "other machines can reach this address, and there is no token. Set POLLER_HTTP_TOKEN",
        ),
        (["--http", "[::]:0"], {}, "there is no token"),
        (["--http", "0"], {"POLLER_HTTP_TOKEN": "short"}, "fewer than 16 characters"),
        (["--http", "0", "--http-token-file", "open"], {}, "Others than its owner may use open"),
        (
            ["--http", "0", "--http-token-file", "missing"],
            {},
            "missing: the token of the HTTP endpoints cannot be read",
        ),
        (["--http", "0"], {"POLLER_HTTP_HOSTS": "http://x"}, "POLLER_HTTP_HOSTS lists something"),
        (["--http", "nonsense"], {}, "not a port, and not HOST:PORT"),
        (["--http-token-file", "open"], {}, "--http-token-file goes with --http"),
        (["--http-changes-key-file", "open"], {}, "--http-changes-key-file goes with --http"),
        (["--http", "0", "--http-changes-key-file", "open"], {}, "which holds the key for changes over HTTP"),
        (["--http", "0"], {"POLLER_HTTP_CHANGES_KEY": "short"}, "fewer than 16 characters"),
        (
            ["--http", "0"],
            {"POLLER_HTTP_CHANGES_KEY": TOKEN, "POLLER_HTTP_TOKEN": TOKEN},
            "every reader could make changes",
        ),
    ],
)
def test_what_would_be_open_or_wrong_is_refused_at_the_start(
    options: list[str], environ: dict[str, str], says: str, project: Project
) -> None:
    project.configure("orders", handlers=NOTING)
    project.insert(1)
    (project.folder / "open").write_text(TOKEN)
    project.environ = dict(environ)

    ended = end(project.start("run", "--once", *options))

    assert ended.code == 2
    assert says in ended.error
    assert project.lines("seen") == [], "nothing was delivered"


def test_another_address_is_served_with_a_token(project: Project) -> None:
    project.configure("orders", handlers=NOTING, poller='schedule = "* * * * * *"')
    project.environ["POLLER_HTTP_TOKEN"] = TOKEN
    process = project.start("run", "--http", "0.0.0.0:0")
    assert process.stderr is not None
    port = int(process.stderr.readline().partition("0.0.0.0:")[2].partition("/")[0])

    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request("/api/pollers", host="0.0.0.0", key=TOKEN))
        refused = received(connection)
    given = ask(port, "/api/pollers", TOKEN)
    process.send_signal(signal.SIGTERM)

    assert end(process).code == 0
    assert refused is not None
    assert (refused.status, given.status) == (421, 200)
