"""What the host finds when it indexes the app."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator

import azure.functions as func
import pytest

from poller import App, Batch, Poller
from poller.errors import ConfigError
from poller.functions import create_app, on_timer
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.functions import host
from tests.functions.folder import Folder, add_rows


def _poller(name: str = "orders", **options: str) -> Poller:
    source = SqlSource(
        "sqlite:///:memory:", table="orders", cursor_column="updated_at", cursor_time_zone="UTC", pk_columns=["id"]
    )
    return Poller(name, source=source, store=MemoryStore(), app_name="shop", **options)  # type: ignore[arg-type]


def test_each_poller_of_the_file_is_a_timer_on_its_own_schedule(folder: Folder) -> None:
    folder.poller("orders", options='schedule = "*/10 * * * * *"')
    folder.poller("late-refunds", "refunds", options='schedule = "0 30 2 * * *"')

    found = host.functions(folder.app())

    assert {name: host.bindings(function) for name, function in found.items()} == {
        "orders": [
            {
                "type": "timerTrigger",
                "direction": "IN",
                "name": "timer",
                "schedule": "*/10 * * * * *",
                "runOnStartup": False,
            }
        ],
        "late_refunds": [
            {
                "type": "timerTrigger",
                "direction": "IN",
                "name": "timer",
                "schedule": "0 30 2 * * *",
                "runOnStartup": False,
            }
        ],
        "poller_sweep": [
            {
                "type": "timerTrigger",
                "direction": "IN",
                "name": "timer",
                "schedule": "30 2-59/5 * * * *",
                "runOnStartup": False,
            }
        ],
    }


def test_schedule_from_an_app_setting_reaches_the_binding(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_SCHEDULE", "0 */5 * * * *")
    folder.poller(options='schedule = "%ORDERS_SCHEDULE%"')

    (binding,) = host.bindings(host.functions(folder.app())["orders"])

    assert binding["schedule"] == "0 */5 * * * *"


def test_function_name_begins_with_a_letter(folder: Folder) -> None:
    folder.poller("2nd-orders")

    assert list(host.functions(folder.app())) == ["poller_2nd_orders"]


def refused(folder: Folder, function: str = "orders") -> ConfigError:
    """What the function of a wrong poller fails with, twice as once."""
    worker = folder.worker()
    errors = []
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            worker.invoke(function)
        errors.append(caught.value)
    assert str(errors[0]) == str(errors[1])
    assert "\n" not in str(errors[0])
    return errors[0]


def test_the_second_of_two_pollers_with_one_functions_name_fails(folder: Folder) -> None:
    folder.poller("2nd")
    folder.poller("poller-2nd", "refunds")

    assert set(host.functions(folder.app())) == {"poller_2nd", "poller_2nd_2"}
    error = refused(folder, "poller_2nd_2")
    assert "pollers.2nd and pollers.poller-2nd would both be the function 'poller_2nd'" in str(error)


def test_a_configured_generator_handler_is_refused_with_its_key(folder: Folder) -> None:
    """Called, it would run nothing, and every batch would pass for handled."""
    folder.poller()
    with (folder.path / "handlers.py").open("a") as handlers:
        handlers.write("\ndef on_orders(batch):\n    for row in batch:\n        yield row\n")

    error = refused(folder)

    assert "pollers.orders.handler: on_orders is a generator" in str(error)
    assert error.key == "pollers.orders.handler"


def test_a_decorated_generator_is_refused_while_the_host_indexes() -> None:
    app = func.FunctionApp()

    async def ship(batch: Batch) -> AsyncIterator[object]:
        for row in batch:
            yield row

    with pytest.raises(ConfigError, match="ship is a generator"):
        on_timer(app, _poller())(ship)
    assert host.functions(app) == {}


def test_app_may_have_other_functions_beside(folder: Folder) -> None:
    folder.poller()
    app = folder.app()

    @app.route("health")  # type: ignore[untyped-decorator,unused-ignore]
    def health(req: func.HttpRequest) -> func.HttpResponse:
        return func.HttpResponse("ok")

    assert set(host.functions(app)) == {"orders", "health"}


# --- the file ---------------------------------------------------------------------------------------------------------


def test_relative_path_starts_at_the_callers_folder(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "poller.toml").write_text("this is another file")
    monkeypatch.chdir(elsewhere)
    folder.poller()

    assert list(host.functions(folder.app())) == ["orders"]


def test_relative_path_may_start_at_the_working_directory(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.poller()
    folder.write()
    monkeypatch.chdir(folder.path)

    assert list(host.functions(create_app("poller.toml"))) == ["orders"]


def test_poller_config_names_another_file(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.poller("other")
    folder.write().rename(folder.path / "other.toml")
    (folder.path / "poller.toml").write_text("not this one")
    monkeypatch.setenv("POLLER_CONFIG", "other.toml")

    assert list(host.functions(host.load(folder.path))) == ["other"]


def test_an_empty_poller_config_means_the_default(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.poller()
    folder.write()
    monkeypatch.setenv("POLLER_CONFIG", "")

    assert list(host.functions(host.load(folder.path))) == ["orders"]
    monkeypatch.chdir(folder.path)
    assert list(host.functions(create_app(""))) == ["orders"]


def test_missing_file_is_one_clear_line(folder: Folder) -> None:
    with pytest.raises(ConfigError) as missing:
        host.load(folder.path)

    assert f"no configuration file poller.toml in {folder.path} nor in /." in str(missing.value)
    assert "POLLER_CONFIG" in str(missing.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("app_name = ", "is not valid TOML"),
        ('app_name = "shop"\n[state]\nstore = "sql"\n', "pollers: is missing"),
        ('app_name = "shop"\npollers = 1\n', "pollers: must be a table"),
    ],
)
def test_a_file_without_valid_pollers_fails_the_index(folder: Folder, text: str, expected: str) -> None:
    (folder.path / "poller.toml").write_text(text)

    with pytest.raises(ConfigError, match=expected):
        host.load(folder.path)


@pytest.mark.guarantee(
    "One worker at a time",
    "A poller with a wrong configuration does not affect the other functions of its app",
)
@pytest.mark.parametrize(
    ("options", "url", "expected"),
    [
        ('handler = "handlers:on_oders"', "", 'pollers.orders.handler: module "handlers" has no "on_oders"'),
        ('handler = "handles:on_orders"', "", 'pollers.orders.handler: there is no module "handles"'),
        ("batch_sise = 5", "", "pollers.orders.batch_sise: there is no such key"),
        ('schedule = "*/10 * * *"', "", "pollers.orders.schedule"),
        ("", "%ORDERS_DB_URL%", "pollers.orders.source.url: the environment variable ORDERS_DB_URL is not set"),
        ("", "no url at all", "pollers.orders.source.url"),
        ("", "sqlite:///shop.db?timeout=soon", "pollers.orders.source.url: `url` is refused by SQLAlchemy: ValueError"),
    ],
)
def test_a_wrong_poller_fails_at_each_tick_and_harms_no_other(
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    options: str,
    url: str,
    expected: str,
) -> None:
    monkeypatch.delenv("ORDERS_DB_URL", raising=False)
    folder.poller(options=options, url=url)
    if options.startswith("handler"):
        folder.pollers[0] = folder.pollers[0].replace('handler = "handlers:on_orders"\n', "", 1)
    add_rows(folder.database, 2, table="refunds")
    folder.poller("refunds", "refunds")

    worker = folder.worker()
    assert set(worker.functions) == {"orders", "refunds"}
    assert expected in caplog.text, "while the host indexes, before any tick"
    assert worker.invoke("refunds") is None
    assert folder.handlers.seen == [1, 2]
    error = refused(folder)
    assert str(folder.path / "poller.toml") in str(error)
    assert expected in str(error)


def test_what_nobody_foresaw_of_one_poller_harms_no_other(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = App.poller

    def broken(app: App, name: str) -> Poller:
        if name == "orders":
            raise RuntimeError("password=geheim-7")
        return made(app, name)

    monkeypatch.setattr(App, "poller", broken)
    folder.poller()
    folder.poller("refunds", "refunds")

    assert set(host.functions(folder.app())) == {"orders", "refunds"}
    assert "pollers.orders: cannot be made: RuntimeError" in str(refused(folder))
    assert "in broken" in caplog.text
    assert "geheim-7" not in caplog.text


def test_a_wrong_poller_keeps_its_schedule_where_that_is_right(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTLY", "0 0 4 * * *")
    folder.poller("nightly", options='schedule = "%NIGHTLY%"\nhandlr = 1')
    folder.defaults = 'schedule = "0 */5 * * * *"'
    folder.poller(options="batch_sise = 5")
    folder.poller("refunds", "refunds", options='schedule = "0 0 3 * * *"\nhandlr = 1')
    folder.poller("wrong", options='schedule = "often"')

    found = host.functions(folder.app())

    schedules = {name: host.bindings(function)[0]["schedule"] for name, function in found.items()}
    assert schedules == {
        "orders": "0 */5 * * * *",
        "refunds": "0 0 3 * * *",
        "wrong": "*/10 * * * * *",
        "nightly": "0 0 4 * * *",
    }


def test_a_wrong_template_is_logged_once(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    folder.defaults = "[templates.fast]\nbatch_sise = 5\n"
    for name in ("one", "two", "three"):
        folder.poller(name, options='template = "fast"')
    folder.poller()

    worker = folder.worker()

    assert caplog.text.count("templates.fast.batch_sise") == 1
    assert "one and 2 more: " in caplog.text
    assert "templates.fast.batch_sise" in str(refused(folder, "three"))
    add_rows(folder.database, 2)
    assert worker.invoke("orders") is None


def test_included_pollers_are_functions_and_name_their_file(folder: Folder) -> None:
    folder.poller()
    folder.poller("refunds", "refunds", options='handler = "handlers:nowhere"')
    folder.pollers[1] = folder.pollers[1].replace('handler = "handlers:on_refunds"\n', "", 1)
    folder.write()
    file, included = folder.path / "poller.toml", folder.path / "pollers.d" / "all.toml"
    included.parent.mkdir()
    included.write_text("".join(folder.pollers))
    head = file.read_text().partition("[pollers.orders]")[0]
    file.write_text('include = ["pollers.d/*.toml"]\n' + head)

    worker = host.Worker(host.load(folder.path))

    assert set(worker.functions) == {"orders", "refunds"}
    with pytest.raises(ConfigError) as caught:
        worker.invoke("refunds")
    assert caught.value.file == str(included)


def test_a_name_that_no_function_can_have_is_still_shown(folder: Folder) -> None:
    folder.poller('"Spät Bestellt"')

    (name,) = host.functions(folder.app())

    assert name == "Sp_t_Bestellt"
    assert "pollers.Spät Bestellt" in str(refused(folder, name))


def test_what_is_wrong_for_all_pollers_leaves_the_apps_functions(folder: Folder) -> None:
    folder.state = 'store = "sql"\nurl = "%NOT_SET_ANYWHERE%"'
    folder.poller()
    app = folder.app()

    @app.route("health")  # type: ignore[untyped-decorator,unused-ignore]
    def health(req: func.HttpRequest) -> func.HttpResponse:
        return func.HttpResponse("ok")

    assert set(host.functions(app)) == {"orders", "health"}
    assert "state.url: the environment variable NOT_SET_ANYWHERE is not set" in str(refused(folder))


# --- the host's limits ------------------------------------------------------------------------------------------------


def _host_json(folder: Folder, timeout: object) -> None:
    (folder.path / "host.json").write_text(json.dumps({"version": "2.0", "functionTimeout": timeout}))


@pytest.mark.parametrize("timeout", ["00:04:30", "00:01:00"])
def test_tick_longer_than_the_hosts_limit_is_refused_by_both_keys(folder: Folder, timeout: str) -> None:
    _host_json(folder, timeout)
    folder.poller(options='tick_timeout = "4m30s"')

    error = refused(folder)

    assert "pollers.orders.tick_timeout: 4m30s is not below functionTimeout in" in str(error)
    assert str(folder.path / "host.json") in str(error)


@pytest.mark.parametrize("timeout", ["00:04:31", "1.00:00:00", "-1", None])
def test_tick_below_the_hosts_limit_is_accepted(folder: Folder, timeout: object) -> None:
    _host_json(folder, timeout)
    folder.poller(options='tick_timeout = "4m30s"')

    assert list(host.functions(folder.app())) == ["orders"]


def test_app_setting_beats_host_json(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    _host_json(folder, "00:10:00")
    folder.poller(options='tick_timeout = "5m"')
    assert list(host.functions(folder.app())) == ["orders"]

    monkeypatch.setenv("AzureFunctionsJobHost__functionTimeout", "00:02:00")

    assert "AzureFunctionsJobHost__functionTimeout, 2m" in str(refused(folder))


@pytest.mark.parametrize(("state", "key"), [('store = "memory"', "state.store"), ('store = "sql"', "state.url")])
def test_state_that_dies_with_the_worker_is_refused_in_azure_only(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, state: str, key: str
) -> None:
    folder.state = state
    folder.poller()
    assert list(host.functions(folder.app())) == ["orders"]

    monkeypatch.setenv("WEBSITE_SITE_NAME", "shop-functions")

    error = refused(folder)
    assert error.key == key
    assert 'state.store = "blob" or "table"' in error.next_step


# --- on_timer ---------------------------------------------------------------------------------------------------------


def test_on_timer_leaves_the_function_as_it_is() -> None:
    app = func.FunctionApp()

    def ship(batch: Batch) -> None:
        """Ship them."""

    assert on_timer(app, _poller(), schedule="%ORDERS_SCHEDULE%")(ship) is ship

    (binding,) = host.bindings(host.functions(app)["ship"])
    assert (binding["type"], binding["name"], binding["schedule"]) == ("timerTrigger", "timer", "%ORDERS_SCHEDULE%")


def test_on_timer_takes_the_pollers_schedule_and_a_name() -> None:
    app = func.FunctionApp()

    on_timer(app, _poller(schedule="0 * * * * *"), name="orders_timer")(lambda batch: None)

    (binding,) = host.bindings(host.functions(app)["orders_timer"])
    assert binding["schedule"] == "0 * * * * *"


def test_on_timer_names_a_function_without_a_name_after_the_poller() -> None:
    app = func.FunctionApp()

    on_timer(app, _poller("late-orders"))(lambda batch: None)

    assert list(host.functions(app)) == ["late_orders"]


def test_on_timer_serves_a_blueprint() -> None:
    blueprint, app = func.Blueprint(), func.FunctionApp()  # type: ignore[no-untyped-call]

    @on_timer(blueprint, _poller())
    def ship(batch: Batch) -> None: ...

    app.register_functions(blueprint)

    assert list(host.functions(app)) == ["ship"]


def test_on_timer_refuses_a_tick_that_the_host_would_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AzureFunctionsJobHost__functionTimeout", "00:01:00")

    with pytest.raises(ConfigError, match=r"^tick_timeout: 4m30s is not below"):
        on_timer(func.FunctionApp(), _poller())(lambda batch: None)


# --- the worker -------------------------------------------------------------------------------------------------------


def test_importing_the_module_loads_no_driver_and_no_client() -> None:
    script = (
        "import sys, poller.functions; "
        "late = ('sqlalchemy', 'sqlglot', 'azure.storage.blob', 'azure.identity', 'typer'); "
        "print([m for m in late if m in sys.modules])"
    )

    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

    assert out.stdout.strip() == "[]"


def test_storage_clients_request_log_stays_out_of_the_workers_log(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    requests = logging.getLogger("azure.core.pipeline.policies.http_logging_policy")
    requests.setLevel(logging.NOTSET)
    caplog.set_level(logging.INFO)
    folder.poller()

    folder.app()

    assert not requests.isEnabledFor(logging.INFO)
