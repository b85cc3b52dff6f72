"""The token, the hosts and the address, as they are given."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from poller.errors import ConfigError
from poller.http import read_address
from poller.http.hosts import listed_hosts
from poller.http.keys import new_changes_key, read_changes_key, read_token
from tests.support.cases import each

TOKEN = "a-token-of-32-characters-exactly"


def private(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_token_comes_from_a_setting_or_a_file(tmp_path: Path) -> None:
    file = private(tmp_path / "token", TOKEN + "\n")

    assert read_token({}) is None
    assert read_token({"POLLER_HTTP_TOKEN": TOKEN}) == TOKEN
    assert read_token({}, file) == TOKEN


@each(
    ("token", "says"),
    [
        ("", "fewer than 16"),
        ("short", "fewer than 16"),
        ("x" * 1025, "more than 1024"),
        ("with a space in the middle", "printable ASCII"),
        ("with\ttab-and-more-characters", "printable ASCII"),
        ("pässword-with-an-umlaut", "printable ASCII"),
        (f" {TOKEN}", "printable ASCII"),
        (f"{TOKEN}\n\n", "printable ASCII"),
    ],
)
def test_wrong_token_is_refused_without_being_shown(token: str, says: str, tmp_path: Path) -> None:
    given: list[tuple[dict[str, str], Path | None]] = [({"POLLER_HTTP_TOKEN": token}, None)]
    for environ, file in [*given, ({}, private(tmp_path / "token", token))]:
        with pytest.raises(ConfigError, match=says) as caught:
            read_token(environ, file)
        assert not token.strip() or token.strip() not in str(caught.value)


@each("mode", [0o640, 0o604, 0o644, 0o620, 0o601])
def test_token_in_a_file_that_others_may_use_is_refused(mode: int, tmp_path: Path) -> None:
    file = private(tmp_path / "token", TOKEN, mode)

    with pytest.raises(ConfigError, match=f"Others than its owner may use .*chmod 600 {file}"):
        read_token({}, file)


def test_token_file_that_is_none_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("pipe", "missing", ".", "a\0b"):
        with pytest.raises(ConfigError):
            read_token({}, tmp_path / name)


def test_token_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Give one of them"):
        read_token({"POLLER_HTTP_TOKEN": TOKEN}, private(tmp_path / "token", TOKEN))


def test_key_for_changes_comes_from_a_setting_or_a_file(tmp_path: Path) -> None:
    file = private(tmp_path / "key", TOKEN + "\n")

    assert read_changes_key({}) is None
    assert read_changes_key({"POLLER_HTTP_TOKEN": TOKEN}) is None
    assert read_changes_key({"POLLER_HTTP_CHANGES_KEY": TOKEN}) is not None
    assert read_changes_key({}, file, token="another-token-than-the-key") is not None
    with pytest.raises(ConfigError, match="POLLER_HTTP_CHANGES_KEY and a file both give the key for changes"):
        read_changes_key({"POLLER_HTTP_CHANGES_KEY": TOKEN}, file)


@each("wrong", ["", "short", "with a space in the middle", "x" * 1025])
def test_wrong_key_for_changes_is_refused_without_being_shown(wrong: str) -> None:
    with pytest.raises(ConfigError, match="The key for changes over HTTP, in the setting") as caught:
        read_changes_key({"POLLER_HTTP_CHANGES_KEY": wrong})
    assert not wrong or wrong not in str(caught.value)


def test_key_for_changes_is_not_the_token(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="every reader could make changes") as caught:
        read_changes_key({"POLLER_HTTP_CHANGES_KEY": TOKEN}, token=TOKEN)
    assert TOKEN not in str(caught.value)


def test_each_new_key_for_changes_is_another_and_serves() -> None:
    keys = {new_changes_key() for _ in range(10)}

    assert len(keys) == 10
    assert all(read_changes_key({"POLLER_HTTP_CHANGES_KEY": key}) for key in keys)


def test_hosts_come_from_a_setting_and_from_azure() -> None:
    assert listed_hosts({}) == []
    listed = " poller.example.com, 10.0.0.7,,[fd00::7],fd00::8"
    site = "shop.azurewebsites.net"

    found = listed_hosts({"POLLER_HTTP_HOSTS": listed, "WEBSITE_HOSTNAME": site})

    assert found == ["poller.example.com", "10.0.0.7", "[fd00::7]", "fd00::8", site]


@each("wrong", ["https://x.example", "x.example:80", "x.example/api", "*.example.com", "a b", "*"])
def test_host_that_is_no_name_is_refused_with_its_place(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"POLLER_HTTP_HOSTS.* place 2"):
        listed_hosts({"POLLER_HTTP_HOSTS": f"ok.example,{wrong}"})


@each(
    ("text", "host", "loopback"),
    [
        ("8080", "127.0.0.1", True),
        ("127.0.0.1:8080", "127.0.0.1", True),
        ("localhost:8080", "localhost", True),
        ("[::1]:8080", "::1", True),
        ("0.0.0.0:8080", "0.0.0.0", False),
        ("[::]:8080", "::", False),
        ("10.1.2.3:8080", "10.1.2.3", False),
    ],
)
def test_port_alone_is_of_this_machine_only(text: str, host: str, loopback: bool) -> None:
    address = read_address(text)

    assert (address.host, address.place[1], address.loopback) == (host, 8080, loopback)


@each("text", ["", "http", ":8080", "8080:", "::1:8080", "65536", "-1", "1.2.3.4", "a:b:1", "[]:80"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--http"):
        read_address(text)


def test_a_port_in_use_is_named() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"--http {port}: nothing can listen there: Address already in use"):
            read_address(str(port)).listen(1)
