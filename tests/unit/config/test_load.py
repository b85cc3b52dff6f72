"""`load_config`: substitution, defaults, and errors that name the key in one line."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from poller.config import AppConfig, load_config
from poller.errors import ConfigError
from tests.support.cases import each
from tests.unit.config import loading

SOURCE = """
[pollers.orders.source]
url = "sqlite:///orders.db"
table = "orders"
cursor_column = "updated_at"
pk_columns = ["id"]
"""


def load(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> AppConfig:
    return loading.load(folder, {"poller.toml": text}, environ)


def refused(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> ConfigError:
    return loading.refused(folder, {"poller.toml": text}, environ)


def test_what_is_not_set_has_the_documented_default(tmp_path: Path) -> None:
    config = load(tmp_path, 'app_name = "shop"\n' + SOURCE)
    orders = config.pollers["orders"]
    assert config.state.store == "blob"
    assert config.state.connection == "AzureWebJobsStorage"
    assert config.state.container == "db-state"
    assert orders.batch_size == 500
    assert orders.tick_timeout == orders.handler_limit == timedelta(minutes=4, seconds=30)
    assert (orders.lease_ttl, orders.heartbeat_interval) == (timedelta(seconds=60), timedelta(seconds=15))
    assert (orders.max_attempts, orders.on_poison, orders.isolation, orders.error_text) == (5, "block", "thread", True)


@pytest.mark.parametrize(("ttl", "heartbeat"), [("3s", 0.75), ("40s", 10), ("10m", 15)])
def test_a_heartbeat_that_is_not_set_follows_a_shorter_lease(tmp_path: Path, ttl: str, heartbeat: float) -> None:
    config = load(tmp_path, f'app_name = "shop"\n[pollers.orders]\nlease_ttl = "{ttl}"\n{SOURCE}')
    assert config.pollers["orders"].heartbeat_interval == timedelta(seconds=heartbeat)


def test_defaults_apply_to_pollers_that_do_not_set_the_key(tmp_path: Path) -> None:
    text = """
app_name = "shop"
[defaults]
batch_size = 7
max_attempts = 2
[defaults.source]
url = "sqlite:///shop.db"
cursor_column = "changed"
pk_columns = ["id"]
[pollers.a.source]
table = "a"
[pollers.b]
batch_size = 9
[pollers.b.source]
table = "b"
pk_columns = ["x", "y"]
"""
    pollers = load(tmp_path, text).pollers
    assert [(p.batch_size, p.max_attempts) for p in pollers.values()] == [(7, 2), (9, 2)]
    assert [p.source.pk_columns for p in pollers.values()] == [("id",), ("x", "y")]
    assert {p.source.cursor_column for p in pollers.values()} == {"changed"}


def test_settings_are_substituted_everywhere_but_in_sql(tmp_path: Path) -> None:
    text = (
        'app_name = "%APP%"\n[pollers.orders]\nbatch_size = "%SIZE%"\n'
        + SOURCE.replace('"sqlite:///orders.db"', '"postgresql://u:50%%@h/%DB_1%"').replace('["id"]', '["%KEY%", "b%"]')
        + "filter = \"name LIKE '%APP%' OR x LIKE '100%%'\"\n"
    )
    config = load(tmp_path, text, {"APP": "shop", "SIZE": "12", "DB_1": "orders", "KEY": "id"})
    source = config.pollers["orders"].source
    assert config.app_name == "shop"
    assert config.pollers["orders"].batch_size == 12
    assert source.url.get_secret_value() == "postgresql://u:50%@h/orders"
    assert source.pk_columns == ("id", "b%")
    assert source.filter == "name LIKE '%APP%' OR x LIKE '100%%'"


def test_a_query_is_not_substituted(tmp_path: Path) -> None:
    query = "SELECT * FROM orders WHERE name LIKE '%NAME%'"
    text = 'app_name = "shop"\n' + SOURCE.replace('table = "orders"', f'query = "{query}"')
    assert load(tmp_path, text).pollers["orders"].source.query == query


@pytest.mark.parametrize("value", ["%40", "%lower%", "100%", "%1A%"])
def test_a_percent_that_names_no_setting_is_itself(tmp_path: Path, value: str) -> None:
    config = load(tmp_path, 'app_name = "shop"\n' + SOURCE + f'start_from = "{value}"\n')
    assert config.pollers["orders"].source.start_from == value


def test_a_missing_setting_is_named_with_its_key(tmp_path: Path) -> None:
    error = refused(tmp_path, 'app_name = "shop"\n' + SOURCE.replace("sqlite:///orders.db", "%ORDERS_DB_URL%"))
    assert error.key == "pollers.orders.source.url"
    assert "ORDERS_DB_URL" in str(error)
    assert "pollers.orders.source.url" in str(error)


def test_bad_toml_is_reported_with_its_line(tmp_path: Path) -> None:
    assert "line 2" in str(refused(tmp_path, 'app_name = "shop"\nbatch_size = = 5\n'))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        load_config(tmp_path / "nowhere.toml", {})


@each(
    ("line", "key", "expected"),
    [
        ('[pollers.orders]\nbatch_sise = 5', "pollers.orders.batch_sise", '"batch_size"'),
        ('[defaults]\nlease_tll = "5s"', "defaults.lease_tll", '"lease_ttl"'),
        ('[state]\nstor = "sql"', "state.stor", '"store"'),
        ('[defaults.source]\ncursor_colum = "x"', "defaults.source.cursor_colum", '"cursor_column"'),
        ('[poller.orders]\nbatch_size = 5', "poller", '"pollers"'),
        ('[pollers.orders]\nbatch_size = "many"', "pollers.orders.batch_size", "whole number"),
        ("[pollers.orders]\nbatch_size = 0", "pollers.orders.batch_size", "at least 1"),
        ('[pollers.orders]\nlease_ttl = "soon"', "pollers.orders.lease_ttl", "duration"),
        ('[defaults]\nlease_ttl = "soon"', "defaults.lease_ttl", "duration"),
        ('[pollers.orders]\nheartbeat_interval = "21s"', "pollers.orders.heartbeat_interval", "a third"),
        ('[pollers.orders]\nlease_ttl = "0s"', "pollers.orders.lease_ttl", "greater than 0"),
        ('[pollers.orders]\nhandler_timeout = "5m"', "pollers.orders.handler_timeout", "tick_timeout"),
        ('[pollers.orders]\nretry_backoff = "6m"', "pollers.orders.retry_backoff", "retry_backoff_max"),
        ('[pollers.orders]\non_poison = "ignore"', "pollers.orders.on_poison", '"halt"'),
        ('[pollers.orders]\nschedule = "00:00:10"', "pollers.orders.schedule", "NCRONTAB"),
        ('[pollers.orders]\nschedule = "* * * 31 2 *"', "pollers.orders.schedule", "never comes"),
        ('[pollers.orders]\nhandler = "handlers.on_orders"', "pollers.orders.handler", "module:function"),
        ('[pollers.Orders]\nbatch_size = 5', "pollers.Orders", "lower-case"),
        ('[state]\nurl = "sqlite:///x.db"', "state.url", 'store = "sql"'),
        ('[state]\nstore = "memory"\ncontainer = "x"', "state.container", 'store = "blob"'),
        ('[state]\nconnection = "AccountName=x;AccountKey=y"', "state.connection", "name of an app setting"),
    ],
)  # fmt: skip
def test_a_wrong_key_or_value_is_one_line_that_names_it(tmp_path: Path, line: str, key: str, expected: str) -> None:
    error = refused(tmp_path, f'app_name = "shop"\n{line}\n{SOURCE}')
    assert error.key == key
    assert key in str(error)
    assert expected in str(error)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("table =", "pollers.orders.source.table"),
        ("cursor_column =", "pollers.orders.source.cursor_column"),
        ("pk_columns =", "pollers.orders.source.pk_columns"),
        ("url =", "pollers.orders.source.url"),
    ],
)
def test_a_source_without_a_required_key_is_refused(tmp_path: Path, line: str, key: str) -> None:
    text = "\n".join(kept for kept in SOURCE.splitlines() if not kept.startswith(line))
    error = refused(tmp_path, f'app_name = "shop"\n{text}\n')
    assert error.key == key
    assert "missing" in str(error)


def test_table_and_query_exclude_each_other(tmp_path: Path) -> None:
    error = refused(tmp_path, 'app_name = "shop"\n' + SOURCE + 'query = "SELECT 1"\n')
    assert error.key == "pollers.orders.source.query"


def test_production_has_to_be_spelled_right(tmp_path: Path) -> None:
    error = refused(tmp_path, 'app_name = "shop"\nenvironment = "prod"\n' + SOURCE)
    assert error.key == "environment"
    assert load(tmp_path, 'app_name = "shop"\nenvironment = "staging"\n' + SOURCE).environment == "staging"


@pytest.mark.guarantee(
    "Hostile and broken input",
    "No error repeats what came out of a setting, and a logger's name neither makes a line nor shows a secret",
)
@each(
    "line",
    [
        '[pollers.orders]\nbatch_size = "%SECRET%"',
        '[pollers.orders]\nlease_ttl = "%SECRET%"',
        '[pollers.orders]\nschedule = "%SECRET%"',
        '[pollers.orders]\nhandler = "%SECRET%"',
        '[pollers.orders]\non_poison = "%SECRET%"',
        '[pollers.orders]\nhandler_timeout = ["%SECRET%"]',
        '[state]\nstore = "%SECRET%"',
        '[state]\nconnection = "x=%SECRET%"',
    ],
)
def test_no_error_repeats_what_came_out_of_a_setting(tmp_path: Path, line: str) -> None:
    error = refused(tmp_path, f'app_name = "shop"\n{line}\n{SOURCE}', {"SECRET": "hunter2-hunter2"})
    assert "hunter2" not in str(error)
    assert "hunter2" not in repr(vars(error))


def test_a_configuration_does_not_show_its_urls(tmp_path: Path) -> None:
    text = 'app_name = "shop"\n[state]\nstore = "sql"\nurl = "%STATE%"\n' + SOURCE.replace(
        "sqlite:///orders.db", "%DB%"
    )
    config = load(tmp_path, text, {"STATE": "postgresql://u:hunter2@h/s", "DB": "postgresql://u:hunter2@h/d"})
    assert "hunter2" not in repr(config)
    assert "hunter2" not in config.model_dump_json()


def test_relative_sqlite_paths_begin_at_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    config = load(tmp_path, 'app_name = "shop"\n[state]\nstore = "sql"\n' + SOURCE)
    assert config.pollers["orders"].source.url.get_secret_value() == f"sqlite:///{tmp_path}/orders.db"
    assert config.state.url is not None
    assert config.state.url.get_secret_value() == f"sqlite:///{tmp_path}/state.db"


@pytest.mark.parametrize("url", ["sqlite:////data/x.db", "sqlite:///:memory:", "sqlite://", "postgresql:///x"])
def test_other_urls_stay_as_they_are(tmp_path: Path, url: str) -> None:
    config = load(tmp_path, 'app_name = "shop"\n' + SOURCE.replace("sqlite:///orders.db", url))
    assert config.pollers["orders"].source.url.get_secret_value() == url


def test_a_source_gets_only_what_was_set(tmp_path: Path) -> None:
    source = load(tmp_path, 'app_name = "shop"\n' + SOURCE + 'schema = "s"\n').pollers["orders"].source
    assert source.keywords().keys() == {"url", "table", "cursor_column", "pk_columns", "schema"}


@each(
    ("functions", "state", "key", "expected"),
    [
        ('mode = "queue"', 'store = "sql"', "state.store", 'must be "blob" or "table" with functions.mode = "queue"'),
        ('mode = "queue"', 'store = "memory"', "state.store", 'must be "blob"'),
        ('mode = "queue"\nqueue = "Work"', "", "functions.queue", "3 to 56 lower-case"),
        ('queue = "a--b"', "", "functions.queue", "single hyphens"),
        ('mode = "queues"', "", "functions.mode", "\"timer\" or \"queue\""),
        ('modus = "queue"', "", "functions.modus", '"mode"'),
    ],
)  # fmt: skip
def test_queue_mode_is_refused_where_it_cannot_be(
    tmp_path: Path, functions: str, state: str, key: str, expected: str
) -> None:
    error = refused(tmp_path, f'app_name = "shop"\n[functions]\n{functions}\n[state]\n{state}\n{SOURCE}')
    assert error.key == key
    assert key in str(error)
    assert expected in str(error)


@pytest.mark.parametrize("app_name", ["a" * 50, "a--b", "shop-"])
def test_an_app_whose_name_makes_no_queue_must_name_one(tmp_path: Path, app_name: str) -> None:
    text = f'app_name = "{app_name}"\n[functions]\nmode = "queue"\n{{}}{SOURCE}'
    error = refused(tmp_path, text.format(""))
    assert error.key == "functions.queue"
    assert "poller-{app_name}" in str(error)
    assert load(tmp_path, text.format('queue = "work"\n')).functions.queue == "work"


def test_the_longest_name_that_makes_a_queue_is_taken(tmp_path: Path) -> None:
    text = f'app_name = "{"a" * 49}"\n[functions]\nmode = "queue"\n{SOURCE}'
    assert load(tmp_path, text).functions.mode == "queue"


def test_options_of_the_queue_may_stand_beside_timers(tmp_path: Path) -> None:
    functions = 'mode = "timer"\nqueue = "work"\ndispatch_schedule = "0 * * * * *"\n'
    text = f'app_name = "{"a" * 63}"\n[state]\nstore = "sql"\n[functions]\n{functions}{SOURCE}'
    assert load(tmp_path, text).functions.queue == "work"


PRUNED = f'app_name = "shop"\n{SOURCE}[pollers.orders.prune]\n'


def test_a_table_is_pruned_by_itself_only_if_the_file_asks_for_it(tmp_path: Path) -> None:
    for line, automatic in (("", False), ("readers = []", False), ('older_than = "7d"', True), ("outbox = true", True)):
        options = load(tmp_path, PRUNED + line).pollers["orders"].prune
        assert options is not None
        assert (options.automatic, options.warn_size) == (automatic, 1_000_000_000), line


def test_what_contradicts_itself_of_pruning_names_its_key(tmp_path: Path) -> None:
    error = refused(tmp_path, PRUNED + 'outbox = true\nolder_than = "7d"')
    assert error.key == "pollers.orders.prune.older_than"
    assert "how old the rows of an outbox are is not known" in str(error)
    captured = """
app_name = "shop"
[pollers.orders.source]
url = "sqlite:///shop.db"
table = "orders"
capture = true
[pollers.orders.prune]
outbox = true
"""
    error = refused(tmp_path, captured)
    assert error.key == "pollers.orders.prune.outbox"
    assert "set older_than instead" in str(error)
