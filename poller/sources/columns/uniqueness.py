"""Which constraints and indexes really keep a key unique and NOT NULL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection, Inspector


@dataclass(frozen=True, slots=True)
class Reflected:
    """What the catalog says of a table or view.

    Attributes:
        columns: by name, in order, in SQLAlchemy's words; `nullable` is None where NOT NULL is declared and not
            enforced in all that a SELECT of the table reads.
        is_base: True if it is a table. inherited: True if others inherit from it: no index spans them all.
    """

    columns: dict[str, dict[str, Any]]
    is_base: bool
    inherited: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """What constraints prove of a key; without it rows would be skipped or repeated without any error.

    Attributes:
        unique: whether a constraint or full index covers it. others: the sets of columns that are unique, for a person.
        nullable: its columns that may be NULL.
    """

    unique: bool
    others: str
    nullable: Sequence[str]


def proof_of(
    sets: tuple[Sequence[str], Sequence[Sequence[str]]], key: Sequence[str], columns: Mapping[str, Mapping[str, Any]]
) -> Proof:
    """True if a key is unique and NOT NULL, given `Dialect.unique_sets` and `Dialect.reflected`."""
    primary, unique = sets
    return Proof(
        unique=any(names and set(names) <= set(key) for names in unique),
        others="; ".join(", ".join(names) for names in unique if names),
        # SQLite reports primary keys as nullable; rows are checked instead.
        nullable=[name for name in key if columns[name].get("nullable") and name not in primary],
    )


def reflected_sets(inspector: Inspector, table: str, schema: str | None) -> tuple[list[str], list[list[str]]]:
    """`Dialect.unique_sets`, as SQLAlchemy says it."""
    primary = list(inspector.get_pk_constraint(table, schema=schema).get("constrained_columns") or [])
    unique = [primary] if primary else []
    unique += [list(c["column_names"]) for c in inspector.get_unique_constraints(table, schema=schema)]
    for index in inspector.get_indexes(table, schema=schema):
        partial = any(name.endswith("_where") and value is not None for name, value in _options_of(index).items())
        if index["unique"] and not partial and None not in index["column_names"] and not index.get("expressions"):
            unique.append([str(name) for name in index["column_names"]])
    return primary, unique


def quoted(table: str, schema: str | None = None) -> str:
    """A name quoted as in standard SQL: for SQLite's statements, and for PostgreSQL's `to_regclass`, which takes it as
    a value."""
    parts = [table] if schema is None else [schema, table]
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def connection_of(inspector: Inspector) -> Connection:
    """The held connection that it inspects over."""
    assert isinstance(inspector.bind, Connection)  # noqa: S101 - no engine is ever inspected
    return inspector.bind


def _options_of(index: Any) -> dict[str, Any]:
    return dict(index.get("dialect_options") or {})
