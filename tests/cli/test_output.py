"""How the console speaks: where options may stand, colours, help, encodings, broken pipes, and what stands in rows."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pexpect
import pytest

from tests.cli.project import COMMAND, Project
from tests.support.cases import each


@each(
    "arguments",
    [
        ("-c", "other.toml", "status", "--json"),
        ("--json", "--config", "other.toml", "status"),
        ("status", "-c", "other.toml", "--json"),
        ("--json", "status", "orders", "--config=other.toml"),
    ],
)
def test_shared_options_stand_before_or_after_the_command(project: Project, arguments: tuple[str, ...]) -> None:
    project.configure("orders")
    (project.folder / "poller.toml").rename(project.folder / "other.toml")
    ended = project.run(*arguments)
    assert ended.code == 0, ended.err
    assert ended.json["pollers"][0]["name"] == "orders"


def test_the_environment_names_the_file_and_the_option_goes_first(project: Project) -> None:
    project.configure("orders")
    (project.folder / "poller.toml").rename(project.folder / "other.toml")
    project.environ["POLLER_CONFIG"] = "other.toml"
    assert project.run("status").code == 0
    assert "third.toml" in project.run("-c", "third.toml", "status").error


def test_the_version_is_the_installed_one(project: Project) -> None:
    from importlib.metadata import version

    assert project.run("--version").out == f"poller {version('poller')}\n"


@pytest.mark.parametrize("command", [(), ("status",), ("backfill",), ("run",)])
def test_help_loses_no_word_on_a_narrow_terminal(project: Project, command: tuple[str, ...]) -> None:
    wide = project.run(*command, "--help")
    project.environ["COLUMNS"] = "40"
    ended = project.run(*command, "--help")
    assert ended.code == 0
    assert re.search(r"…|\w\.\.\.", ended.out) is None
    assert max(map(len, ended.out.splitlines())) <= 40

    assert not re.search(r"\w-\n", ended.out), "a command is not split at a hyphen"

    def words(text: str) -> set[str]:
        return set(re.findall(r"[A-Za-z_]{4,}", text))

    assert words(ended.out) >= words(wide.out)


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_colours_unless_it_refuses_them(project: Project, no_color: str, coloured: bool) -> None:
    project.configure("orders")
    environ = {**os.environ, "NO_COLOR": no_color, "TERM": "xterm", "COLUMNS": "40"}
    text = pexpect.run(
        " ".join([*COMMAND, "status"]), cwd=str(project.folder), env=environ, timeout=60, use_poll=True
    ).decode()
    assert "never ran" in text
    assert ("\x1b[" in text) is coloured


def test_a_reader_that_goes_away_is_no_fault(project: Project) -> None:
    project.configure(*(f"p{n}" for n in range(3)))
    read, write = os.pipe()
    os.close(read)  # before the command starts: it never has a reader
    try:
        done = subprocess.run(
            [*COMMAND, "status"], cwd=project.folder, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_folder_that_cannot_be_read_is_an_error_of_one_line(project: Project, tmp_path: Path) -> None:
    (tmp_path / "poller.toml").mkdir()
    assert "poller.toml" in project.run("status").error


def redirected(project: Project, where: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    shell = ["sh", "-c", f'exec "$@" {where}', "sh", *COMMAND, *arguments]
    return subprocess.run(shell, cwd=project.folder, stderr=subprocess.PIPE, text=True, check=False, timeout=60)


@pytest.mark.parametrize("where", [">&-", ">/dev/full"])
@pytest.mark.parametrize("command", [("status",), ("status", "--json")])
def test_a_stdout_that_takes_nothing_is_an_error_of_one_line(
    project: Project, where: str, command: tuple[str, ...]
) -> None:
    project.configure("orders")
    ended = redirected(project, where, *command)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("poller: The output could not be written to stdout: "), line


def test_rows_are_delivered_where_the_streams_are_closed(project: Project) -> None:
    project.configure("orders", handlers="import os\ndef handle(batch):\n    print('got')\n    os.write(1, b'got')\n")
    project.insert(3)
    assert redirected(project, "<&- >&- 2>&-", "run", "--once").returncode == 0
    (poller,) = project.run("status", "--json").json["pollers"]
    assert poller["cursor"]["tiebreaker"] == {"id": 3}


NAME = "Łódź ★"


def said(project: Project, encoding: str, *arguments: str) -> tuple[int, bytes, bytes]:
    environ = {**os.environ, "PYTHONIOENCODING": encoding, "POLLER_CONFIG": "poller.toml"}
    ended = subprocess.run(
        [*COMMAND, *arguments], cwd=project.folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("encoding", ["ascii", pytest.param("cp1252", marks=pytest.mark.soak)])
def test_rows_of_all_scripts_are_shown(project: Project, encoding: str) -> None:
    project.configure("orders")
    project.execute("ALTER TABLE orders ADD COLUMN note TEXT")
    project.execute("INSERT INTO orders VALUES (?, ?, ?)", (1, "2026-01-01 00:00:00", NAME))
    code, out, err = said(project, encoding, "peek", "orders")
    assert (code, err) == (0, b"")
    assert b"\\u2605" in out
    code, out, err = said(project, encoding, "peek", "orders", "--json")
    assert code == 0, err
    assert json.loads(out.decode(encoding))["rows"][0]["note"] == NAME


HANDLERS = """
import logging

def handle(batch):
    (row,) = batch
    logging.getLogger("shop").warning("order %s", row["note"])
    raise ValueError(f"cannot ship {row['note']}")
"""
NOTE = "\x1b]0;owned\x07\x1b[2J\x9b31m password=hunter2secret\rgone"


def test_a_handlers_error_and_its_log_steer_no_terminal(project: Project) -> None:
    project.configure("orders", handlers=HANDLERS, poller="retry_backoff = '1ms'")
    project.execute("ALTER TABLE orders ADD COLUMN note TEXT")
    project.execute("INSERT INTO orders VALUES (?, ?, ?)", (1, "2026-01-01 00:00:00", NOTE))
    for arguments in (("run", "--once"), ("--debug", "run", "--once"), ("status",)):
        ended = project.run(*arguments)
        said = ended.out + ended.err
        assert "owned" in said
        assert [c for c in said if not c.isprintable() and c not in "\n\t"] == []
        assert "hunter2secret" not in said
    ended = project.run("run", "--once")
    assert "Traceback" in ended.err, "its lines stay lines"
    assert "WARNING shop: order" in ended.err
