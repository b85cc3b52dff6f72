"""`poller init` on a database that takes tokens instead of passwords."""

from __future__ import annotations

from pathlib import Path

import pytest

from poller.config import load_config
from poller.errors import ConfigError
from poller.project.choices import Choices
from poller.project.plan import ProjectPlan, Wanted, plan
from tests.integration.sources.tables import execute, make_orders
from tests.support.entra import Issuer, TokenServer


class Answers(Choices):
    """Somebody who is asked who signs in."""

    def __init__(self, answer: str | None) -> None:
        self.answer = answer
        self.asked = 0

    def identity(self) -> str | None:
        self.asked += 1
        return self.answer


@pytest.fixture
def table(server: TokenServer) -> str:
    execute(server.owner, "drop table if exists orders")
    make_orders(server.owner, ["2026-01-01 00:00:01"])
    server.grant("orders")
    return server.url


def planned(tmp_path: Path, url: str, choices: Choices, identity: str | None = None) -> ProjectPlan:
    wanted = Wanted(config=tmp_path / "poller.toml", url=url, identity=identity, table="orders", name="orders")
    return plan(wanted, choices)


@pytest.mark.parametrize(("said", "kept"), [("ORDERS_DB", "ORDERS_DB"), ("true", True)])
def test_init_signs_in_as_the_poller_will(
    tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch, said: str, kept: bool | str
) -> None:
    made = planned(tmp_path, table, Answers(None), identity=said)
    made.write()
    setting = made.setting_to_set
    assert setting is not None
    monkeypatch.setenv(setting, table)
    source = load_config(tmp_path / "poller.toml").pollers["orders"].source
    assert source.identity == kept


def test_a_person_is_asked_where_a_token_may_be_sent(tmp_path: Path, table: str) -> None:
    answers = Answers("ORDERS_DB")
    assert 'identity = "ORDERS_DB"' in planned(tmp_path, table, answers).configuration
    assert answers.asked == 1


def test_nobody_is_asked_where_the_url_holds_a_password(tmp_path: Path, server: TokenServer, table: str) -> None:
    answers = Answers("ORDERS_DB")
    assert "identity" not in planned(tmp_path, server.owner, answers).configuration
    assert answers.asked == 0


def test_a_token_for_a_server_that_takes_none_is_refused(tmp_path: Path, sqlite_url: str, issuer: Issuer) -> None:
    make_orders(sqlite_url, ["2026-01-01 00:00:01"])
    with pytest.raises(ConfigError, match="identity") as refused:
        planned(tmp_path, sqlite_url, Choices(), identity="true")
    assert refused.value.key == "identity"
    assert not issuer.made


def test_what_defaults_say_of_all_signs_in_for_the_next(tmp_path: Path, table: str) -> None:
    (tmp_path / "poller.toml").write_text(
        'app_name = "shop"\n[state]\nstore = "sql"\n[defaults.source]\nidentity = "ORDERS_DB"\n'
    )
    answers = Answers(None)
    made = planned(tmp_path, table, answers)
    assert made.configuration.count("identity") == 1
    assert answers.asked == 0
