"""Which bound a source has: by the option, or, for `observed`, by what its role may see."""

from __future__ import annotations

import sqlalchemy as sa

from poller.config import BoundChoice

KINDS: dict[str, BoundChoice] = {"observed-strict": "strict", "heuristic": "delay"}
"""The option by the kind of bound, where they differ."""
ROLE = "poller_observer"


def reading_as(kind: str, url: str) -> tuple[str, BoundChoice]:
    """URL and option with which `Bound.kind` is this one. On PostgreSQL nobody can ask for `observed`: it is what
    `auto` finds for a role that reads all tables, and may not see all sessions."""
    if kind != "observed" or not url.startswith("postgresql"):
        option: BoundChoice = KINDS.get(kind, kind)  # type: ignore[arg-type]
        return url, "auto" if kind == "observed" else option
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(
            f"do $$ begin create role {ROLE} login password '{ROLE}' in role pg_read_all_data;"
            " exception when duplicate_object or unique_violation then null; end $$"
        )
    known = sa.make_url(url).set(username=ROLE, password=ROLE)
    return known.render_as_string(hide_password=False), "auto"
