"""Cases that share one world: a test over a table of cases, tried one after the other on the same database."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa

_Test = TypeVar("_Test", bound=Callable[..., None])
_DATABASES = ("any_db", "family_db", "mariadb_db", "mysql_db", "postgres_db", "sqlite_url")
"""Fixtures whose database is empty before each case."""


def each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[_Test], _Test]:
    """As `pytest.mark.parametrize`, in one test: to make a database takes longer than most cases. An error names its
    case, and each has 20 seconds more. Cases must end with what they began with, but for the database of a fixture,
    which is emptied before each."""
    keys, tried = [names] if isinstance(names, str) else list(names), list(cases)

    def decorate(test: _Test) -> _Test:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def over_all(**fixtures: Any) -> None:
            for number, case in enumerate(tried):
                given = {**fixtures, **dict(zip(keys, case if len(keys) > 1 else (case,), strict=True))}
                for url in _databases(given, first=number == 0):
                    empty(url)
                try:
                    test(**given)
                except Exception as error:
                    error.add_note(f"Case {number + 1} of {len(tried)}: {names} = {case!r}")
                    raise

        kept = [one for name, one in signature.parameters.items() if name not in keys]
        over_all.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        many = len(tried) * getattr(test, "many", 1)
        others = [mark for mark in getattr(test, "pytestmark", ()) if mark.name != "timeout"]
        over_all.__dict__.update(many=many, pytestmark=[*others, pytest.mark.timeout(120 + 20 * many).mark])
        return over_all  # type: ignore[return-value]

    return decorate


def _databases(given: dict[str, Any], *, first: bool) -> Iterable[str]:
    """The URLs of the databases that a test is given and has used, or asks for by name."""
    for name, value in given.items():
        if name in _DATABASES:
            if not first:
                yield value
        elif isinstance(value, str) and value in _DATABASES:
            yield given["request"].getfixturevalue(value)


def empty(url: str) -> None:
    """Drop all that was made in a database."""
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        run, name = connection.exec_driver_sql, engine.dialect.name
        if name == "postgresql":
            others = "select nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'"
            for schema in run(others).scalars().all():
                run(f'drop schema "{schema}" cascade')
            run("create schema public")
            run("grant usage on schema public to public")
            run(f'alter database "{engine.url.database}" reset all')
        elif name == "sqlite":
            made = "select type, name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
            for kind, table in run(made).all():
                run(f'drop {kind} "{table.replace(chr(34), 2 * chr(34))}"')
        else:
            run("set foreign_key_checks = 0")
            made = "select table_type, table_name from information_schema.tables where table_schema = database()"
            for kind, table in run(made).all():
                what = {"VIEW": "view", "SEQUENCE": "sequence"}.get(kind, "table")
                run(f"drop {what} `{table.replace('`', '``')}`".replace("%", "%%"))
            made = (
                "select routine_type, routine_name from information_schema.routines where routine_schema = database()"
            )
            for kind, routine in run(made).all():
                run(f"drop {kind} `{routine}`")
