"""Whatever stands in a configuration: it is loaded, or refused in one line; never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from poller.config import load_each, schedules_of
from poller.errors import ConfigError
from tests.unit.config.loading import APP, INCLUDING, TABLE, of_template, refused, write

FINE = TABLE + of_template("fine")
DEEP = "pollers.x" + ".a" * 3000
HOSTILE = [
    # nothing, or nearly
    "", "\n", "#", "\ufeff", "pollers = {}", "[pollers]", "[pollers.x]", "[pollers.x.source]", "[templates]",
    "[templates.x]", "[defaults]\n[state]", "[[pollers]]", "[[pollers.x]]", "[pollers.x]\nsource = {}",
    "include = []",
    # wrong kinds
    "pollers = 1", "pollers = []", "pollers = 'x'", "pollers = [[]]", "templates = 1",
    "templates = []\n" + of_template("a"),
    "defaults = 1", "defaults = []\n" + of_template("a"), "include = 1", "include = {}", "include = [[]]",
    "include = [{}]",
    "include = ['']", "include = 'x.toml'", "pollers.x = 1", "pollers.x = []", "pollers.x = inf",
    "templates.x = 1979-05-27",
    "defaults.source = 1\n" + TABLE + of_template("a"), "templates.x.source = 1\n[pollers.a]\ntemplate = 'x'\n",
    "pollers.x.source = 1", "pollers.x.source = []", "pollers.x.source.url = {}", "pollers.x.source.pk_columns = {}",
    "pollers.x.template = 1", "pollers.x.template = []", "pollers.x.template = {}", "pollers.x.template = nan",
    "pollers.x.template = true", "pollers.x.template = 07:32:00", "state = []", "state = 1", "run = 1",
    "functions = []",
    "connections = {}", "connections = 0", "connections = 1e300", "connections = nan", "state.store = {}",
    "pollers.x.schedule = []", "pollers.x.schedule = {}", "pollers.x.batch_size = nan", "pollers.x.batch_size = -inf",
    "pollers.x.lease_ttl = nan", "pollers.x.batch_bytes = nan", "pollers.x.ordering_key = 'id'",
    # cycles, and names that are like others
    FINE + "[templates.a]\ntemplate = 'b'\n[templates.b]\ntemplate = 'a'\n", FINE + "[templates.a]\ntemplate = 'a'\n",
    "[pollers.a]\ntemplate = 'a'\n", "[pollers.a]\ntemplate = 'b'\n[pollers.b]\ntemplate = 'a'\n",
    "[pollers.template]\ntemplate = 'pollers'\n", "[templates.defaults]\n[pollers.source]\ntemplate = 'defaults'\n",
    "[pollers.pollers]\n[templates.templates]\n", "[pollers.defaults]\n[defaults.pollers]\n",
    FINE + "[defaults]\ndefaults = {}\n",
    FINE + "[defaults.templates.table]\n", FINE + "[templates.templates.table]\n", "include = ['poller.toml']",
    "include = ['./poller.toml']", "include = ['*']", "include = ['**']", "include = ['..']",
    "include = ['.']", "include = ['/']",
    "include = ['[']", "include = ['[a-']", "include = ['\\u0000']", "include = ['%%%']",
    # names
    "[pollers.'']", "[pollers.' ']", "[pollers.'a b']", "[pollers.'a.b']", "[pollers.'a\\nb']", '[pollers."a\\nb"]',
    '[pollers."\\u0000"]', '[pollers."\\u202e"]', "[pollers.'größe']", "[pollers.'注文']", "[pollers.'İ']",
    "[pollers.'K']",
    "[pollers.'-a']", "[pollers.'%A%']", "[pollers.'__proto__']", f"[pollers.{'a' * 64}]",
    f"[pollers.{'a' * 100_000}]",
    FINE + "[templates.'größe']", FINE + '[templates."a\\nb"]', FINE + "[templates.'']", FINE + "[templates.'a.b']",
    "[pollers.x]\ntemplate = 'größe'\n",
    '[pollers.x]\ntemplate = "a\\nb"\n', f"[pollers.x]\ntemplate = '{'a' * 100_000}'\n",
    FINE + "[pollers.y]\ntemplate = '%FINE%'\n", '"" = 1', '"a\\nb" = 1', "'größe' = 1", '"\\u0000" = 1',
    # what the parser refuses, or should
    "[pollers.x]\n[pollers.x]", "pollers.x = 1\n[pollers.x]", "[pollers.x", "a = ", "\x00", "a = \"\\ud800\"",
    f"a = {'9' * 5000}", "connections = " + "9" * 4000, DEEP + " = 1",
    "a = " + "[" * 3000, "a = " + "[" * 3000 + "]" * 3000,
    "a = " + "{a=" * 3000, "a" + ".a" * 3000 + " = 1", FINE + "[templates.y]\nsource" + ".a" * 500 + " = 1\n",
]  # fmt: skip


@pytest.mark.guarantee("One worker at a time", "Whatever a configuration holds, it is loaded or refused in one line")
@pytest.mark.parametrize("included", [False, True], ids=["main", "included"])
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_configuration_ends_in_a_traceback(tmp_path: Path, text: str, included: bool) -> None:
    environ = {"FINE": "fine"}
    if included:
        files = {"poller.toml": INCLUDING, "pollers.d/a.toml": text}
    else:
        files = {"poller.toml": text if "app_name" in text else APP + text}
    error = refused(tmp_path, files, environ)
    assert len(str(error)) < 1000, "names are cut"
    file = write(tmp_path, {})
    for read in (load_each, schedules_of):
        try:
            found = load_each(file, environ) if read is load_each else schedules_of(file, ["x", "fine"], environ)
        except ConfigError:
            continue
        if isinstance(found, tuple):
            assert all("\n" not in str(one) for one in found[1].values())
