"""A configuration of one file or several, written and loaded; and what is common to all that is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from poller.config import AppConfig, load_config
from poller.errors import ConfigError

APP = 'app_name = "shop"\n'
INCLUDING = 'app_name = "shop"\ninclude = ["pollers.d/*.toml"]\n'
TABLE = """
[templates.table]
handler = "handlers:on_rows"
batch_size = 20
[templates.table.source]
url = "sqlite:///shop.db"
cursor_column = "updated_at"
pk_columns = ["id"]
"""


def of_template(name: str, more: str = "") -> str:
    """A poller that has all but its table from the template."""
    return f'[pollers.{name}]\ntemplate = "table"\n{more}\nsource.table = "{name}"\n'


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """The files, by their paths; that of `poller.toml`."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "poller.toml"


def load(folder: Path, files: Mapping[str, str], environ: Mapping[str, str] | None = None) -> AppConfig:
    return load_config(write(folder, files), environ or {})


def refused(folder: Path, files: Mapping[str, str], environ: Mapping[str, str] | None = None) -> ConfigError:
    """Why it cannot be loaded: one line, no matter what stands in the files, that quotes nothing by a chained error."""
    with pytest.raises(ConfigError) as caught:
        load(folder, files, environ)
    error = caught.value
    assert len(str(error).splitlines()) == 1
    assert error.__cause__ is None, "a chained error would quote its input in a traceback"
    assert error.__context__ is None, "a chained error would quote its input in a traceback"
    assert str(error).startswith(error.file)
    return error
