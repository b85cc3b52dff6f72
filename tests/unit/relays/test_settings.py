"""`[pollers.NAME.relay]`: checked by the relay that the handler names, wherever it stands, and refused with its key."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from poller import ConfigError, Poller, load_app
from poller.config import load_each
from poller.relays import StdoutRelay, StdoutSettings, relay
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.unit.config.loading import APP, TABLE, load, of_template, refused, write

SOURCE = """
[pollers.orders.source]
url = "sqlite:///shop.db"
table = "orders"
cursor_column = "updated_at"
cursor_time_zone = "UTC"
pk_columns = ["id"]
"""


def orders(settings: str = "", handler: str = "poller.relays:stdout") -> dict[str, str]:
    return {"poller.toml": f'{APP}[pollers.orders]\nhandler = "{handler}"\n{settings}{SOURCE}'}


def test_a_relays_settings_are_its_model(tmp_path: Path) -> None:
    assert load(tmp_path, orders("relay.envelope = true\n")).pollers["orders"].relay == StdoutSettings(envelope=True)
    assert load(tmp_path, orders()).pollers["orders"].relay == StdoutSettings()


@pytest.mark.parametrize(
    ("files", "key", "words"),
    [
        (orders("relay.envelop = true\n"), "pollers.orders.relay.envelop", 'did you mean "envelope"?'),
        (orders("relay.x = true\n"), "pollers.orders.relay.x", "there is no such key; there are: columns, envelope."),
        (orders("relay.envelope = 5\n"), "pollers.orders.relay.envelope", "must be true or false"),
        (orders("relay = 5\n"), "pollers.orders.relay", "must be a table"),
        (orders(handler="poller.relays:stdot"), "pollers.orders.handler", 'no such relay; did you mean "stdout"?'),
        (orders("relay.envelope = true\n", "handlers:f"), "pollers.orders.relay", "has no meaning without a relay"),
    ],
    ids=["misspelt", "unknown", "wrong-type", "no-table", "unknown-relay", "no-relay"],
)
def test_a_wrong_setting_is_refused_with_its_key(tmp_path: Path, files: dict[str, str], key: str, words: str) -> None:
    error = refused(tmp_path, files)
    assert error.key == key
    assert words in str(error)


def test_settings_may_come_from_a_template_and_the_environment(tmp_path: Path) -> None:
    template = TABLE.replace("handlers:on_rows", "poller.relays:stdout") + "[templates.table.relay]\n"
    text = APP + template + 'envelope = "%ENVELOPE%"\n' + of_template("orders") + of_template("b", "relay.envelope = 0")
    pollers = load(tmp_path, {"poller.toml": text}, {"ENVELOPE": "true"}).pollers
    assert (pollers["orders"].relay, pollers["b"].relay) == (StdoutSettings(envelope=True), StdoutSettings())

    wrong = text.replace('envelope = "%ENVELOPE%"', "envelop = true")
    error = refused(tmp_path, {"poller.toml": wrong})
    assert error.key == "templates.table.relay.envelop"


def test_a_template_may_leave_the_relay_to_its_pollers(tmp_path: Path) -> None:
    template = TABLE.replace('handler = "handlers:on_rows"\n', "relay.envelope = true\n")
    text = APP + template + of_template("orders", 'handler = "poller.relays:stdout"')
    assert load(tmp_path, {"poller.toml": text}).pollers["orders"].relay == StdoutSettings(envelope=True)


def test_a_wrong_relay_in_an_included_file_is_that_files(tmp_path: Path) -> None:
    whole = orders("relay.envelop = true\n")["poller.toml"].removeprefix(APP)
    files = {"poller.toml": f'{APP}include = ["d.toml"]\n', "d.toml": whole}
    assert Path(refused(tmp_path, files).file).name == "d.toml"


def test_a_wrong_relay_hides_no_other_poller(tmp_path: Path) -> None:
    other = SOURCE.replace("orders", "b")
    files = {"poller.toml": orders("relay.envelop = 1\n")["poller.toml"] + other}
    config, wrong = load_each(write(tmp_path, files), {})
    assert config is not None
    assert (list(config.pollers), list(wrong)) == (["b"], ["orders"])


def test_in_python_a_relay_is_made_by_its_name(tmp_path: Path) -> None:
    made = relay("stdout", envelope=True)
    assert isinstance(made, StdoutRelay)
    assert made.settings.envelope
    with pytest.raises(ConfigError, match="no such key"):
        relay("stdout", envelop=True)
    with pytest.raises(ConfigError, match='did you mean "stdout"'):
        relay("stdot")


def test_a_poller_in_python_may_name_a_relay_without_settings(tmp_path: Path) -> None:
    source = SqlSource(f"sqlite:///{tmp_path}/a.db", table="t", cursor_column="c", pk_columns=["id"])
    named = Poller("a", source=source, store=MemoryStore(), app_name="shop", handler="poller.relays:stdout")
    assert isinstance(named.handler, StdoutRelay)


def test_a_missing_package_names_the_key_the_extra_and_the_command(tmp_path: Path) -> None:
    settings = 'relay = {queue = "orders", connection_env = "BUS"}\n'
    text = orders(settings, "poller.relays:service_bus")["poller.toml"]
    file = write(tmp_path, {"poller.toml": text + '[state]\nstore = "memory"\n'})
    with (
        patch.dict(sys.modules, {"azure.servicebus": None}),
        load_app(file, {"BUS": "x"}) as app,
        pytest.raises(ConfigError) as caught,
    ):
        _ = app.pollers["orders"].handler
    assert caught.value.key == "pollers.orders.handler"
    assert "Install poller's extra service-bus: pip install azure-servicebus" in str(caught.value)
