"""`[templates.NAME]`: what some pollers share, written once, and wrong once."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from poller.config import load_each, schedules_of
from tests.support.cases import each
from tests.unit.config.loading import APP, TABLE, load, of_template, refused, write


def test_a_poller_has_what_it_does_not_set_from_its_template(tmp_path: Path) -> None:
    pollers = load(tmp_path, {"poller.toml": APP + TABLE + of_template("orders")}).pollers
    orders = pollers["orders"]
    assert (orders.template, orders.handler, orders.batch_size) == ("table", "handlers:on_rows", 20)
    assert (orders.source.table, orders.source.cursor_column) == ("orders", "updated_at")
    assert orders.source.url.get_secret_value() == f"sqlite:///{tmp_path}/shop.db"


def test_a_poller_wins_over_its_template_and_that_over_defaults(tmp_path: Path) -> None:
    defaults = """
[defaults]
batch_size = 1
max_attempts = 1
lease_ttl = "90s"
[defaults.source]
schema = "a"
query_timeout = "1s"
settle = "1s"
"""
    template = TABLE.replace("[templates.table]", "[templates.table]\nmax_attempts = 2") + 'schema = "b"\n'
    own = of_template("orders", 'batch_size = 3\nsource.settle = "3s"') + of_template("plain")
    text = APP + defaults + template + own
    pollers = load(tmp_path, {"poller.toml": text}).pollers
    orders, plain = pollers["orders"], pollers["plain"]
    assert (orders.batch_size, orders.max_attempts, orders.lease_ttl) == (3, 2, timedelta(seconds=90))
    assert (orders.source.schema_name, orders.source.query_timeout) == ("b", timedelta(seconds=1))
    assert (orders.source.settle, plain.source.settle) == (timedelta(seconds=3), timedelta(seconds=1))
    assert (plain.batch_size, plain.max_attempts) == (20, 2)


def test_a_list_of_a_poller_replaces_that_of_its_template(tmp_path: Path) -> None:
    text = APP + TABLE + of_template("orders", 'source.pk_columns = ["a", "b"]')
    assert load(tmp_path, {"poller.toml": text}).pollers["orders"].source.pk_columns == ("a", "b")


def test_a_poller_without_a_template_has_nothing_from_one(tmp_path: Path) -> None:
    own = '[pollers.alone.source]\nurl = "sqlite://"\ntable = "t"\ncursor_column = "c"\npk_columns = ["id"]\n'
    pollers = load(tmp_path, {"poller.toml": APP + TABLE + own + of_template("orders")}).pollers
    assert (pollers["alone"].template, pollers["alone"].batch_size, pollers["alone"].handler) == (None, 500, None)


def test_only_what_is_set_counts_as_set(tmp_path: Path) -> None:
    text = APP + TABLE + 'settle = "5s"\n' + of_template("orders")
    source = load(tmp_path, {"poller.toml": text}).pollers["orders"].source
    assert source.keywords().keys() == {"url", "table", "cursor_column", "pk_columns", "settle"}


def test_settings_are_substituted_in_templates_and_their_names(tmp_path: Path) -> None:
    text = APP + TABLE.replace("sqlite:///shop.db", "%DB%") + of_template("orders").replace('"table"', '"%KIND%"', 1)
    orders = load(tmp_path, {"poller.toml": text}, {"DB": "sqlite:///else.db", "KIND": "table"}).pollers["orders"]
    assert orders.source.url.get_secret_value() == f"sqlite:///{tmp_path}/else.db"


def test_a_template_and_a_poller_may_have_one_name(tmp_path: Path) -> None:
    text = APP + TABLE + of_template("table")
    assert load(tmp_path, {"poller.toml": text}).pollers["table"].batch_size == 20


@each(
    ("template", "more", "key", "words"),
    [
        ("tabel", "", "pollers.orders.template", 'there is no template \'tabel\'; did you mean "table"?'),
        ("x", "", "pollers.orders.template", "there are: table."),
        ("", "", "pollers.orders.template", "there is no template"),
        ("table", "template = 'other'", "templates.table.template", "only a poller has a template"),
        ("table", "batch_sise = 5", "templates.table.batch_sise", '"batch_size"'),
        ("table", "batch_size = 0", "templates.table.batch_size", "at least 1"),
        ("table", 'lease_ttl = "soon"', "templates.table.lease_ttl", "duration"),
        ("table", 'schedule = "%SECRET%"', "templates.table.schedule", "comes from SECRET"),
        ("table", 'handler_timeout = "5m"', "templates.table.handler_timeout", "tick_timeout"),
        ("table", "source.cursor_colum = 'x'", "templates.table.source.cursor_colum", '"cursor_column"'),
        ("table", "source.pk_columns = ['a', 'a']", "templates.table.source.pk_columns", "twice"),
        ("table", "source.filter = 5", "templates.table.source.filter", "text in quotes"),
        ("table", 'source.query = "%NO%"\nsource.schema = "%NO%"', "templates.table.source.schema", "variable NO is"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_where_it_stands_and_once(
    tmp_path: Path, template: str, more: str, key: str, words: str
) -> None:
    text = TABLE.replace("[templates.table.source]\n", "").replace("batch_size = 20\n", more + "\n")
    for line in ("url", "cursor_column", "pk_columns"):
        if f"source.{line}" not in more:
            text = text.replace(f"\n{line} =", f"\nsource.{line} =")
        else:
            text = "\n".join(one for one in text.splitlines() if not one.startswith(line)) + "\n"
    pollers = "".join(of_template(name).replace('"table"', f'"{template}"', 1) for name in ("orders", "other", "third"))
    error = refused(tmp_path, {"poller.toml": APP + text + pollers}, {"SECRET": "hunter2"})
    assert error.key == key
    assert key in str(error)
    assert words in str(error)
    assert "hunter2" not in str(error)
    assert "more like this" not in str(error)


@each(
    ("text", "key", "words"),
    [
        ("templates = 5\n", "templates", "table"),
        ("[templates]\nunused = 5\n", "templates.unused", "table"),
        ("[templates.Big]\nbatch_size = 5\n", "templates.Big", "lower-case"),
        ("[templates.unused]\nbatch_sise = 5\n", "templates.unused.batch_sise", '"batch_size"'),
        ("[templates.unused.source]\nurl = '%NOWHERE%'\n", "templates.unused.source.url", "NOWHERE"),
        ('[defaults]\ntemplate = "table"\n', "defaults.template", "only a poller"),
        ("[template.table]\nbatch_size = 5\n", "template", '"templates"'),
    ],
)
def test_a_template_that_no_poller_has_is_checked_too(tmp_path: Path, text: str, key: str, words: str) -> None:
    own = '[pollers.alone.source]\nurl = "sqlite://"\ntable = "t"\ncursor_column = "c"\npk_columns = ["id"]\n'
    error = refused(tmp_path, {"poller.toml": APP + text + own})
    assert error.key == key
    assert words in str(error)


def test_a_template_may_leave_to_pollers_what_they_must_set(tmp_path: Path) -> None:
    template = '[templates.fast]\nhandler_timeout = "5m"\n[templates.fast.source]\nurl = "sqlite://"\n'
    own = """[pollers.orders]
template = "fast"
tick_timeout = "9m"
source = {table = "t", cursor_column = "c", pk_columns = ["id"]}
"""
    assert load(tmp_path, {"poller.toml": APP + template + own}).pollers["orders"].handler_limit.seconds == 300


def test_a_wrong_template_harms_only_the_pollers_that_have_it(tmp_path: Path) -> None:
    wrong = "[templates.wrong]\nbatch_size = 0\n"
    own = of_template("orders") + of_template("other").replace('"table"', '"wrong"', 1)
    config, errors = load_each(write(tmp_path, {"poller.toml": APP + wrong + TABLE + own}), {})
    assert config is not None
    assert list(config.pollers) == ["orders"]
    assert {name: error.key for name, error in errors.items()} == {"other": "templates.wrong.batch_size"}


def test_a_schedule_is_the_nearest_that_is_written(tmp_path: Path) -> None:
    template = TABLE.replace("batch_size = 20", 'schedule = "0 * * * * *"')
    text = APP + '[defaults]\nschedule = "1 * * * * *"\n' + template + '[templates.not-a-table]\nschedule = "soon"\n'
    text += of_template("of-template") + of_template("own", 'schedule = "2 * * * * *"') + "[pollers.of-defaults]\n"
    text += of_template("wrong", 'schedule = "soon"') + of_template("unset", 'schedule = "%NOWHERE%"')
    file = write(tmp_path, {"poller.toml": text})
    assert schedules_of(file, ["of-template", "own", "of-defaults", "wrong", "unset", "unknown"], {}) == {
        "of-template": "0 * * * * *",
        "own": "2 * * * * *",
        "of-defaults": "1 * * * * *",
        "wrong": "*/10 * * * * *",
        "unset": "*/10 * * * * *",
        "unknown": "1 * * * * *",
    }
