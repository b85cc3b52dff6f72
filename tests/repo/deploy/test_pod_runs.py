"""The command line of deploy/kubernetes/base, with the files and settings of its manifests, run without a cluster."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import create_engine, text

from tests.repo.deploy.files import DEPLOY, documents
from tests.support.azurite import Azurite
from tests.support.services import REPOSITORY, free_port, wait_until

FOLDER = DEPLOY / "kubernetes"
TOKEN = "a-token-of-32-characters-exactly"


@pytest.fixture
def azurite() -> Iterator[Azurite]:
    """One of its own: the manifests name no container, so they share the default one with whoever else does."""
    with Azurite.start() as running:
        yield running


def ask(url: str, headers: dict[str, str], port: int) -> Any:
    """Send the request that a scaler would send to `url`, to this machine."""
    parts = urlsplit(url)
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{parts.path}", headers={**headers, "Host": str(parts.netloc)}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


@pytest.mark.soak
def test_a_pod_delivers_answers_its_scaler_and_ends_in_order(
    postgres_db: str, azurite: Azurite, tmp_path: Path
) -> None:
    engine = create_engine(postgres_db)
    with engine.begin() as connection:
        connection.execute(text((REPOSITORY / "examples/compose/orders.sql").read_text().replace(":", r"\:")))
        connection.execute(text("ALTER TABLE orders DISABLE TRIGGER USER"))
        connection.execute(text("UPDATE orders SET updated_at = now() - interval '1 hour'"))
    engine.dispose()
    manifests = {one["kind"]: one for one in documents((FOLDER / "base/workload.yaml").read_text())}
    (trigger,) = [
        trigger["metadata"]
        for one in documents((FOLDER / "keda/scale.yaml").read_text())
        if one["kind"] == "ScaledObject"
        for trigger in one["spec"]["triggers"]
    ]
    (container,) = manifests["Deployment"]["spec"]["template"]["spec"]["containers"]
    port, alive, app = free_port(), tmp_path / "alive", tmp_path / "app"
    shutil.copytree(FOLDER / "base/app", app)
    config = app / "poller.toml"
    config.write_text(config.read_text().replace("*/10 * * * * *", "* * * * * *"))
    arguments = [
        one.replace("0.0.0.0:8080", f"127.0.0.1:{port}").replace("/tmp/poller-alive", str(alive))
        for one in container["args"]
    ]
    settings = dict(line.split("=", 1) for line in (FOLDER / "base/settings.env").read_text().split())
    secrets = {"ORDERS_DB_URL": postgres_db, "POLLER_HTTP_TOKEN": TOKEN}
    assert {one["name"] for one in container["env"]} == secrets.keys()
    command = container["livenessProbe"]["exec"]["command"]

    def probe() -> bool:
        here = [one.replace("/tmp/poller-alive", str(alive)) for one in command]
        return subprocess.run(here, check=False, capture_output=True).returncode == 0

    assert not probe()
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "poller_cli.main", *arguments],
            cwd=app,
            env={
                **os.environ,
                **settings,
                **secrets,
                "AzureWebJobsStorage": azurite.connection_string,
                "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "cli")]),
            },
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: probe() or process.poll() is not None, "the probe says that it is alive")
        said = tmp_path / "log"
        wait_until(lambda: "order 1000" in said.read_text(), f"all orders, in {said.read_text()}")
        found = ask(trigger["url"], {trigger["keyParamName"]: TOKEN}, port)
        assert isinstance(found[trigger["valueLocation"]], int)
        os.utime(alive, (time.time() - 61, time.time() - 61))
        wait_until(probe, "it is touched again")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
    assert re.findall(r"order (\d+), key", (tmp_path / "log").read_text()) == [str(n) for n in range(1, 1001)]
    assert not alive.exists()
