"""A project whose rows stand in a real database, and whose state may stand in Azurite."""

from __future__ import annotations

from tests.cli.project import Ended, Project
from tests.support.azurite import KEY
from tests.support.schemas import validator


def configure(project: Project, url: str, source: str = "", poller: str = "", table: str = "orders") -> None:
    """One poller over a table of a real database; the URL comes from a setting, as it should."""
    project.environ["ORDERS_DB_URL"] = url
    project.write(
        f"""app_name = "shop"
[state]
store = "sql"
[pollers.orders]
handler = "handlers:handle"
{poller}
[pollers.orders.source]
url = "%ORDERS_DB_URL%"
table = "{table}"
cursor_column = "updated_at"
pk_columns = ["id"]
{source}
""",
        "def handle(batch): pass\n",
    )


def done(project: Project, *arguments: str, schema: str = "change", code: int = 0) -> Ended:
    ended = project.run(*arguments, "--json")
    assert ended.code == code, ended.err
    assert KEY not in ended.out + ended.err
    if code == 0:
        validator(schema).validate(ended.json)
    else:
        assert ended.out == ""
        assert ended.error
    return ended
