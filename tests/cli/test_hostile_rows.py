"""What stands in a row reaches stderr by a handler's error and by what it logs: it steers no terminal, and secrets
are cut out of it."""

from __future__ import annotations

from tests.cli.project import Project

HANDLERS = """
import logging

def handle(batch):
    (row,) = batch
    logging.getLogger("shop").warning("order %s", row["note"])
    raise ValueError(f"cannot ship {row['note']}")
"""
NOTE = "\x1b]0;owned\x07\x1b[2J\x9b31m password=hunter2secret\rgone"


def test_a_handlers_error_and_its_log_steer_no_terminal(project: Project) -> None:
    project.configure("orders", handlers=HANDLERS)
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
