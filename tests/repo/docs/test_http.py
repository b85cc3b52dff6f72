"""docs/http.md shows what the endpoints answer, and how they are asked."""

from __future__ import annotations

import re
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from poller.http import ROUTES, Request
from poller.tick import PENDING_CAP
from tests.repo.docs.blocks import GETTING_STARTED, ROOT, Block, blocks, run
from tests.support.http import TOKEN, endpoints
from tests.support.services import free_port

PAGE = "docs/http.md"
RUN, PRINTED, TOKENS, REFUSED, SERVED, *_ = blocks(PAGE)
TICK, ACCEPTED, CHANGE, NO_PAGE = blocks(PAGE)[7:11]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with one poller, all rows of which are delivered."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, total REAL, updated_at TEXT NOT NULL)")
    (tmp_path / "handlers.py").write_text(blocks(GETTING_STARTED, "python")[0].text)
    (tmp_path / "poller.toml").write_text(blocks(GETTING_STARTED, "toml")[0].text)
    return tmp_path


def test_endpoints_are_those_of_the_page() -> None:
    listed = re.findall(r"^\| `(?:GET|POST) /api/([^`]+)`", (ROOT / PAGE).read_text(), re.MULTILINE)

    assert listed == [route.template for route in ROUTES]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page asks with curl")
@pytest.mark.parametrize(
    ("session", "printed"),
    [(RUN, PRINTED), (TOKENS, REFUSED), (TICK, ACCEPTED), (CHANGE, NO_PAGE)],
    ids=["port", "token", "tick", "change"],
)
def test_a_session_beside_poller_run_prints_what_is_shown(session: Block, printed: Block, shop: Path) -> None:
    text = session.text.replace("8080", str(free_port())).replace(" &\n", " 2>err >out &\n")

    try:
        assert run(["bash", "-muc", text], shop) == printed.text
    finally:
        print((shop / "err").read_text())


def test_a_program_serves_as_shown(shop: Path) -> None:
    text = SERVED.text.replace("8080", "0")

    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/api/health\n", run([sys.executable, "-c", text], shop))


def test_the_line_for_cron_says_what_is_wrong(shop: Path) -> None:
    (line,) = (one.text for one in blocks(PAGE, "bash") if "--fail" in one.text)

    assert run(["bash", "-c", line.replace("8080", str(free_port()))], shop) == "pollers are not healthy\n"


def test_the_scalers_address_and_place_exist() -> None:
    (trigger,) = blocks(PAGE, "yaml")
    said = dict(re.findall(r'(\w+): "([^"]+)"', trigger.text))
    address = urlsplit(said["url"])
    headers = (("host", address.netloc), (said["keyParamName"], TOKEN))

    given = endpoints(hosts=["orders.shop.svc"])(Request("GET", address.path, headers=headers))

    assert (given.status, f'"{said["valueLocation"]}":7'.encode() in given.body) == (200, True)


def test_the_cap_of_the_page_is_that_of_the_count() -> None:
    assert f"a cap of {PENDING_CAP:,} rows" in (ROOT / PAGE).read_text()
