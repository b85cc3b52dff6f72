"""`include`: pollers and templates in further files, and errors that name the file that is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from poller import load_app
from poller.config import load_each
from poller.errors import ConfigError
from tests.unit.config.loading import APP, INCLUDING, TABLE, load, of_template, refused, write


def test_included_pollers_come_after_the_files_own_and_in_order(tmp_path: Path) -> None:
    files = {
        "poller.toml": INCLUDING + TABLE + of_template("zero"),
        "pollers.d/b.toml": of_template("two") + of_template("three"),
        "pollers.d/a.toml": of_template("one"),
        "pollers.d/.hidden.toml": "not = = toml",
        "pollers.d/notes.txt": "not = = toml",
    }
    assert list(load(tmp_path, files).pollers) == ["zero", "one", "two", "three"]


def test_all_pollers_and_templates_may_stand_in_included_files(tmp_path: Path) -> None:
    files = {"poller.toml": INCLUDING, "pollers.d/a.toml": of_template("orders"), "pollers.d/b.toml": TABLE}
    assert load(tmp_path, files).pollers["orders"].handler == "handlers:on_rows"


def test_defaults_and_settings_hold_in_included_files(tmp_path: Path) -> None:
    files = {
        "poller.toml": INCLUDING + "[defaults]\nmax_attempts = 2\n" + TABLE,
        "pollers.d/a.toml": of_template("orders", 'batch_size = "%SIZE%"'),
    }
    orders = load(tmp_path, files, {"SIZE": "3"}).pollers["orders"]
    assert (orders.max_attempts, orders.batch_size) == (2, 3)


def test_relative_databases_of_included_files_begin_at_the_main(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    own = of_template("other", 'source.url = "sqlite:///other.db"')
    files = {"poller.toml": INCLUDING, "pollers.d/deep/a.toml": TABLE + of_template("orders") + own}
    files["poller.toml"] = files["poller.toml"].replace("d/*", "d/**/*")
    pollers = load(tmp_path, files).pollers
    assert pollers["orders"].source.url.get_secret_value() == f"sqlite:///{tmp_path}/shop.db"
    assert pollers["other"].source.url.get_secret_value() == f"sqlite:///{tmp_path}/other.db"


def test_a_file_that_two_patterns_match_counts_once(tmp_path: Path) -> None:
    text = INCLUDING.replace('*.toml"', '*.toml", "./pollers.d/a.toml", "%FOLDER%/a.*"')
    files = {"poller.toml": text + TABLE, "pollers.d/a.toml": of_template("orders")}
    assert list(load(tmp_path, files, {"FOLDER": "pollers.d"}).pollers) == ["orders"]


def test_a_link_may_lead_outside(tmp_path: Path) -> None:
    folder = tmp_path / "app"
    outside = write(tmp_path / "outside", {"poller.toml": of_template("orders")})
    write(folder, {"poller.toml": INCLUDING + TABLE, "pollers.d/a.toml": ""})
    (folder / "pollers.d" / "b.toml").symlink_to(outside)
    assert list(load(folder, {}).pollers) == ["orders"]


def test_a_file_mounted_as_a_config_map_is_read_once(tmp_path: Path) -> None:
    """As Kubernetes does: `..data` links to a folder of the version, each file links through it."""
    write(tmp_path, {"poller.toml": INCLUDING.replace("d/*", "d/**/*") + TABLE})
    write(tmp_path, {"pollers.d/..2026_11_23/a.toml": of_template("orders")})
    (tmp_path / "pollers.d" / "..data").symlink_to("..2026_11_23")
    (tmp_path / "pollers.d" / "a.toml").symlink_to("..data/a.toml")
    assert list(load(tmp_path, {}).pollers) == ["orders"]


@pytest.mark.parametrize(
    ("included", "key", "words"),
    [
        ("[state]\nstore = 'sql'\n", "state", "Move it to"),
        ("[defaults]\nbatch_size = 5\n", "defaults", "[pollers.NAME] and [templates.NAME] only"),
        ('include = ["more.toml"]\n', "include", "Name all files in include of"),
        ("app_name = 'shop'\n", "app_name", "Move it to"),
        ("[poller.orders]\nbatch_size = 5\n", "poller", "[pollers.NAME]"),
        ("pollers = 5\n", "pollers", "table"),
        ("templates = []\n", "templates", "table"),
        ("[pollers]\norders = 5\n", "pollers.orders", "table"),
        ("[pollers.Orders]\ntemplate = 'table'\n", "pollers.Orders", "lower-case"),
        ('[pollers.orders]\ntemplate = "tabel"\n', "pollers.orders.template", 'did you mean "table"?'),
        ("[pollers.orders]\nbatch_sise = 5\n", "pollers.orders.batch_sise", '"batch_size"'),
        (of_template("orders", "batch_size = '%NOWHERE%'"), "pollers.orders.batch_size", "NOWHERE"),
        ("[templates.other]\nbatch_size = 0\n", "templates.other.batch_size", "at least 1"),
        ("a = = b", "", "not valid TOML"),
    ],
)
def test_what_is_wrong_in_an_included_file_names_it(tmp_path: Path, included: str, key: str, words: str) -> None:
    files = {"poller.toml": INCLUDING + TABLE + of_template("fine"), "pollers.d/a.toml": included}
    error = refused(tmp_path, files)
    assert error.file == str(tmp_path / "pollers.d" / "a.toml")
    assert error.key == key
    assert words in str(error)


@pytest.mark.parametrize("table", ["pollers", "templates"])
@pytest.mark.parametrize(
    ("first", "second"), [("poller.toml", "pollers.d/a.toml"), ("pollers.d/a.toml", "pollers.d/b.toml")]
)
def test_one_that_is_defined_twice_names_both_files(tmp_path: Path, table: str, first: str, second: str) -> None:
    files = {"poller.toml": INCLUDING, "pollers.d/z.toml": TABLE + of_template("fine")}
    files[first] = files.get(first, "") + f"[{table}.orders]\n"
    files[second] = f"[{table}.orders]\n"
    error = refused(tmp_path, files)
    assert (error.key, error.file) == (f"{table}.orders", str(tmp_path / second))
    assert str(tmp_path / first) in str(error)


@pytest.mark.guarantee("One worker at a time", "No poller is missing because a file was")
@pytest.mark.parametrize(
    ("include", "words"),
    [
        ('["pollers.d/*.tml"]', "no file matches 'pollers.d/*.tml'"),
        ('["pollers.d/*.toml", "more.toml"]', "no file matches 'more.toml'"),
        ('["\\u0000"]', "no file matches"),
        ('["%FOLDER%/*.toml"]', "no file matches '%FOLDER%/*.toml'"),
        ('["%NOWHERE%/*.toml"]', "NOWHERE"),
        ('["*.toml"]', "matches poller.toml itself"),
        ('"pollers.d/*.toml"', "must be a list"),
        ("[5]", "must be a list of texts"),
        ('[""]', "must be a list of texts"),
        ("{}", "must be a list"),
    ],
)
def test_an_include_that_means_no_file_is_refused(tmp_path: Path, include: str, words: str) -> None:
    files = {"poller.toml": APP + f"include = {include}\n" + TABLE, "pollers.d/a.toml": of_template("orders")}
    error = refused(tmp_path, files, {"FOLDER": "hunter2"})
    assert error.key.partition("[")[0] == "include"
    assert words in str(error)
    assert "hunter2" not in str(error)


def test_including_nothing_is_no_error(tmp_path: Path) -> None:
    assert load(tmp_path, {"poller.toml": APP + "include = []\n" + TABLE + of_template("orders")}).include == ()


def test_an_included_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"poller.toml": INCLUDING + TABLE + of_template("orders")})
    bad = tmp_path / "pollers.d" / "bad.toml"
    bad.mkdir(parents=True)
    assert "cannot be read" in str(refused(tmp_path, {}))
    bad.rmdir()
    bad.write_bytes(b'name = "caf\xe9"')
    assert "is not UTF-8" in str(refused(tmp_path, {}))
    bad.unlink()
    bad.symlink_to("nowhere.toml")
    error = refused(tmp_path, {})
    assert "a link to a file that does not exist" in str(error)
    assert error.file == str(bad)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_included_file_without_permission_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"poller.toml": INCLUDING + TABLE, "pollers.d/a.toml": of_template("orders")})
    (tmp_path / "pollers.d" / "a.toml").chmod(0)
    assert "Permission denied" in str(refused(tmp_path, {}))


def test_a_wrong_included_poller_hides_no_other(tmp_path: Path) -> None:
    files = {
        "poller.toml": INCLUDING + TABLE,
        "pollers.d/a.toml": of_template("orders", "batch_size = 0") + of_template("other"),
    }
    config, wrong = load_each(write(tmp_path, files), {})
    assert config is not None
    assert list(config.pollers) == ["other"]
    assert wrong["orders"].file == str(tmp_path / "pollers.d" / "a.toml")


@pytest.mark.parametrize(
    ("own", "key"),
    [
        ("source.filter = 'a ='", "pollers.orders.source.filter"),
        ("source.url = 'nonsense'", "pollers.orders.source.url"),
        ("handler = 'nowhere:handle'", "pollers.orders.handler"),
    ],
)
def test_what_shows_when_a_poller_is_made_names_its_file(tmp_path: Path, own: str, key: str) -> None:
    state = '[state]\nstore = "memory"\n'
    file = write(tmp_path, {"poller.toml": INCLUDING + state + TABLE, "pollers.d/a.toml": of_template("orders", own)})
    with load_app(file, {}) as app, pytest.raises(ConfigError) as caught:
        _ = app.pollers["orders"].handler
    assert caught.value.file == str(tmp_path / "pollers.d" / "a.toml")
    assert caught.value.key == key
    assert caught.value.file in str(caught.value)
