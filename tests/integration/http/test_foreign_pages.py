"""Changes over real sockets: what nobody but a page of this server may do."""

from __future__ import annotations

import json
import random
import socket
import string
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from poller import load_app
from poller.http import serve
from poller.runtime import SystemRuntime
from tests.integration.http.changing import KEY, Shop, shop
from tests.support.http import SECURITY, TOKEN, received, request, send
from tests.support.quarantine import Clock


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """One whose changes are all refused, so that each test finds it as it was."""
    with shop(tmp_path_factory.mktemp("shop"), token=TOKEN) as opened:
        yield opened


def test_with_a_token_both_keys_are_needed_and_enough(tmp_path: Path) -> None:
    with shop(tmp_path, token=TOKEN) as mine:
        assert mine.change("pause").status == 200


REFUSED: dict[str, tuple[dict[str, str | None], int]] = {
    "no type": ({"Content-Type": None}, 415),
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    "a form of parts": ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
    "plain text": ({"Content-Type": "text/plain"}, 415),
    "text that claims JSON": ({"Content-Type": "text/plain; application/json"}, 415),
    "JSON and more": ({"Content-Type": "application/json; charset=utf-8"}, 415),
    "no origin": ({"Origin": None}, 403),
    "an origin that hides": ({"Origin": "null"}, 403),
    "another origin": ({"Origin": "https://evil.example"}, 403),
    "another port": ({"Origin": "http://localhost:1"}, 403),
    "no port": ({"Origin": "http://localhost"}, 403),
    "another name of this machine": ({"Origin": "http://127.0.0.1"}, 403),
    "no session": ({"Cookie": None}, 403),
    "another session": ({"Cookie": "poller_session=" + "x" * 43}, 403),
    "no token": ({"x-poller-csrf": None}, 403),
    "a token of nothing": ({"x-poller-csrf": "9999999999." + "0" * 64}, 403),
    "no key for changes": ({"Authorization": None}, 403),
    "a wrong key for changes": ({"Authorization": f"Bearer {KEY[:-1]}"}, 403),
    "the key that only reads": ({"Authorization": f"Bearer {TOKEN}"}, 403),
    "the key in another place": ({"Authorization": None, "x-changes-key": KEY}, 403),
    "another scheme": ({"Authorization": f"Basic {KEY}"}, 403),
    "no key that reads": ({"x-functions-key": None}, 401),
    "only the key for changes, twice": ({"x-functions-key": KEY}, 401),
    "a name that leads here": ({"Host": "evil.example", "Origin": "https://evil.example"}, 421),
}


@pytest.mark.guarantee(
    "Hostile and broken input",
    "Nothing that a foreign page can send changes anything: no form, no script, no replayed token, no name that "
    "leads here",
)
@pytest.mark.parametrize("case", REFUSED)
def test_what_another_page_can_send_changes_nothing(case: str, there: Shop) -> None:
    headers, status = REFUSED[case]
    before = there.document()

    given = there.change("pause", headers=headers)

    assert given.status == status
    assert list(given.json) == ["error"]
    assert there.document() == before
    assert {name: given.headers[name] for name in SECURITY} == SECURITY
    assert not [name for name in given.headers if name.startswith("access-control") or name == "set-cookie"]
    for secret in (KEY, TOKEN, "evil"):
        assert secret.encode() not in given.body


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("Origin: https://evil.example", 403),
        ("Origin: http://localhost", 403),
        ("x-poller-csrf: 1.x", 403),
        ("Cookie: poller_session=" + "x" * 43, 403),
        ("Content-Type: text/plain", 415),
        ("Content-Type: application/json", 415),
        (f"Authorization: Bearer {KEY}", 400),
        (f"x-functions-key: {TOKEN}", 400),
        ("Host: localhost", 400),
        ("Content-Length: 1", 400),
        ("Transfer-Encoding: chunked", 400),
    ],
)
def test_a_header_that_decides_and_comes_twice_is_refused(line: str, status: int, there: Shop) -> None:
    before = there.document()
    body = json.dumps({"change": "pause", "name": "orders", "by": "ana"}).encode()

    given = there.post(body, line)

    assert (given.status, there.document()) == (status, before)


BODIES: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 400),
    "no JSON": (b"change=pause&name=orders&by=ana", 400),
    "a list": (b"[]", 422),
    "bytes": (b"\xff\xfe{}", 400),
    "deep": (b"[" * 4_000, 400),
    "NaN": (b'{"change": NaN}', 400),
    "a field twice": (b'{"change": "resume", "change": "pause", "name": "orders", "by": "ana"}', 400),
    "half a character": (b'{"change": "pause", "name": "orders", "by": "\\ud800"}', 400),
    "a field too many": (b'{"change": "pause", "name": "orders", "by": "ana", "break_lease": true}', 422),
    "another change": (b'{"change": "reset-to-beginning", "name": "orders", "by": "ana"}', 422),
    "several changes": (b'{"change": ["pause"], "name": "orders", "by": "ana"}', 422),
    "nobody": (b'{"change": "pause", "name": "orders"}', 422),
    "a blank name": (b'{"change": "pause", "name": "orders", "by": " \\n\\u2028 "}', 422),
    "a number for a name": (b'{"change": "pause", "name": "orders", "by": 7}', 422),
    "no typed name": (b'{"change": "pause", "by": "ana"}', 422),
    "another poller": (b'{"change": "pause", "name": "refunds", "by": "ana"}', 422),
    "not quite the name": (b'{"change": "pause", "name": "Orders", "by": "ana"}', 422),
    "a pause of a row": (b'{"change": "pause", "name": "orders", "by": "ana", "id": "0123456789abcdef"}', 422),
    "no row": (b'{"change": "discard", "name": "orders", "by": "ana"}', 422),
    "rows": (b'{"change": "discard", "name": "orders", "by": "ana", "id": ["0123456789abcdef"]}', 422),
    "all rows": (b'{"change": "discard", "name": "orders", "by": "ana", "all": true}', 422),
    "a path for a row": (b'{"change": "discard", "name": "orders", "by": "ana", "id": "../../state/shop"}', 422),
    "a row that never was": (b'{"change": "discard", "name": "orders", "by": "ana", "id": "0123456789abcdef"}', 422),
    "a NUL in the reason": (b'{"change": "pause", "name": "orders", "by": "ana", "reason": "a\\u0000b"}', 422),
}


@pytest.mark.parametrize("case", BODIES)
def test_a_body_that_is_wrong_changes_nothing(case: str, tmp_path: Path) -> None:
    body, status = BODIES[case]
    clock = Clock()
    with shop(tmp_path, runtime=clock) as mine:
        before = mine.document()
        given = mine.post(body)
        assert (given.status, list(given.json)) == (status, ["error"])
        assert mine.document() == before
        assert b"reset-to" not in given.body


def test_a_body_counts_only_after_all_that_the_headers_say(there: Shop) -> None:
    assert there.post(b"nonsense", headers={"Authorization": None}).status == 403


@pytest.mark.parametrize("name", ["nobody", "ORDERS", "orders%00", "..", "orders/changes"])
def test_a_name_that_is_none_is_404_before_anything_is_read(name: str, there: Shop) -> None:
    body = json.dumps({"change": "pause", "name": name, "by": "ana"}).encode()
    assert there.page

    with patch.object(type(there.app.store), "read", side_effect=AssertionError):
        assert there.post(body, path=f"/api/dashboard/{name}/changes").status == 404


def session_elsewhere(there: Shop, *, key: str = KEY, runtime: SystemRuntime | None = None) -> dict[str, str | None]:
    """Of a page of the same poller, from another instance."""
    with (
        load_app(there.folder / "poller.toml", {}, observers=[], runtime=runtime) as app,
        serve(app, "0", environ={"POLLER_HTTP_TOKEN": TOKEN}, changes_key=key) as server,
    ):
        headers = Shop(there.folder, app, server, TOKEN).opened()
    return {name: headers[name] for name in ("Cookie", "x-poller-csrf")}


def test_a_token_of_another_session_or_time_or_key_is_refused(there: Shop) -> None:
    before, ours = there.document(), there.opened()
    for headers in (
        {"Cookie": there.opened()["Cookie"], "x-poller-csrf": ours["x-poller-csrf"]},
        session_elsewhere(there, runtime=Clock()),
        session_elsewhere(there, key="another-key-for-changes-of-somebody"),
    ):
        assert there.change("pause", headers=dict(headers)).status == 403
    assert there.document() == before


def test_no_secret_is_right_but_for_a_character(there: Shop) -> None:
    chance, before, headers = random.Random(7), there.document(), there.opened()
    for name in ("Cookie", "x-poller-csrf", "Authorization", "x-functions-key"):
        begin = len(headers[name]) - len(headers[name].removeprefix("Bearer ").removeprefix("poller_session="))
        for _ in range(25):
            at = chance.randrange(begin, len(headers[name]))
            other = chance.choice([c for c in string.ascii_letters + string.digits if c != headers[name][at]])
            cut = chance.choice([other, "", other + headers[name][at]])
            wrong = headers[name][:at] + cut + headers[name][at + 1 :]
            given = there.change("pause", headers={**headers, name: wrong})
            assert given.status in (401, 403), (name, wrong)
    assert there.document() == before


def test_what_follows_a_body_or_is_missing_of_it_is_refused(there: Shop) -> None:
    before = there.document()
    body = json.dumps({"change": "pause", "name": "orders", "by": "ana"}).encode()

    longer = there.post(body + b"POST /api/dashboard/orders/changes HTTP/1.1\r\n", headers=_length(len(body)))
    shorter = there.post(body, headers=_length(len(body) - 1))
    none = there.post(body, headers={"Content-Length": None})
    chunks = there.post(b"0\r\n\r\n", headers={"Content-Length": None, "Transfer-Encoding": "chunked"})
    large = there.post(b" " * 8_000 + body)

    assert [one.status for one in (longer, shorter, none, chunks, large)] == [400, 400, 411, 411, 413]
    assert there.document() == before


def test_a_body_that_ends_early_or_never_comes_changes_nothing(there: Shop) -> None:
    before = there.document()
    with patch.object(there.server, "_limits", type(there.server._limits)(seconds=0.3)):
        slow = there.post(b"{", headers=_length(500))
    with socket.create_connection(("127.0.0.1", there.server.port), timeout=30) as one:
        one.sendall(request("/api/dashboard/orders/changes", "Content-Length: 500", method="POST") + b"{")
        one.shutdown(socket.SHUT_WR)
        half = received(one)

    assert half is not None
    assert (slow.status, half.status) == (408, 400)
    assert there.document() == before


def test_only_post_is_there_and_without_a_key_for_changes_nothing(tmp_path: Path) -> None:
    path = "/api/dashboard/orders/changes"
    with shop(tmp_path) as mine:
        for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"):
            given = send(mine.server.port, request(path, method=method))
            assert given is not None
            assert (given.status, given.headers["allow"]) == (405, "POST")
    (tmp_path / "closed").mkdir()
    with shop(tmp_path / "closed", changes_key=None) as closed:
        unknown = closed.post(b"{}", path="/api/dashboard/orders/nothing")
        given = closed.change("pause")
        assert (given.status, given.body) == (404, unknown.body)
        assert [one["kind"] for one in closed.audit()] == ["created"]


@pytest.mark.guarantee("Hostile and broken input", "Looking changes nothing, whatever is asked")
def test_looking_writes_nothing_but_what_looks_remember(there: Shop) -> None:
    store = there.app.store
    written: list[str] = []
    write, append = type(store).write, type(store).append

    def noted(self: object, name: str, *args: object, **options: object) -> object:
        written.append(name)
        return write(self, name, *args, **options)  # type: ignore[arg-type]

    def noted_line(self: object, name: str, *args: object, **options: object) -> object:
        written.append(name)
        return append(self, name, *args, **options)  # type: ignore[arg-type]

    paths = ["health", "pollers", "pollers/orders", "scale/orders", "dashboard", "dashboard/orders"]
    with patch.object(type(store), "write", noted), patch.object(type(store), "append", noted_line):
        for path in [*paths, "dashboard/orders/changes", "dashboard/orders?change=pause&name=orders&by=ana"]:
            for method in ("GET", "HEAD"):
                headers = [f"{name}: {value}" for name, value in there.opened().items() if name != "Host"]
                assert send(there.server.port, request(f"/api/{path}", *headers, method=method)) is not None

    assert set(written) <= {"health/shop.json"}


def _length(length: int) -> dict[str, str | None]:
    return {"Content-Length": str(length)}
