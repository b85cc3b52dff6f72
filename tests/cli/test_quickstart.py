"""examples/quickstart does what its README says."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys

from tests.cli.project import Project, end
from tests.support.services import REPOSITORY


def test_each_order_is_printed_once(project: Project) -> None:
    for name in ("poller.toml", "handlers.py"):
        shutil.copy(REPOSITORY / "examples" / "quickstart" / name, project.folder)
    for _ in range(2):
        subprocess.run([sys.executable, "handlers.py"], cwd=project.folder, check=True)
    assert project.run("status", "--json").json["pollers"][0]["pending"] == 6
    process = project.start("run")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(6)]
    process.send_signal(signal.SIGTERM)
    assert end(process).code == 0
    assert [line.split(":")[0] for line in lines] == [f"order {n}" for n in range(1, 7)]
    status = project.run("status", "--json").json["pollers"][0]
    assert (status["pending"], status["cursor"]["tiebreaker"]) == (0, {"id": 6})
