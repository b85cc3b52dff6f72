r"""The statements that install capture in PostgreSQL, made of quoted names.

A row that is no `jsonb`, such as one with \u0000 in a column of type json, is a gap: its writer does not fail.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from poller.databases import capture as common
from poller.databases.postgresql.site import EMPTIED, ROWS, PostgreSqlSite, literal

SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "datestyle": "'ISO, MDY'",
    "extra_float_digits": "1",
    "intervalstyle": "iso_8601",
    "bytea_output": "hex",
    "timezone": "'UTC'",
}
"""What the writer's session would decide otherwise."""

_CAPTURES = """CREATE TABLE IF NOT EXISTS {captures} (change_table text PRIMARY KEY, source text NOT NULL,
  source_oid oid NOT NULL, key_columns text[] NOT NULL, columns jsonb NOT NULL, partitions oid[] NOT NULL,
  with_old boolean NOT NULL, excluded text[] NOT NULL, accepted text[] NOT NULL,
  columns_since bigint NOT NULL DEFAULT 0, made_at timestamptz NOT NULL DEFAULT now(),
  removed_at timestamptz, pruned_through bigint NOT NULL DEFAULT 0)"""
_CHANGES = """CREATE TABLE {changes} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(), at timestamptz NOT NULL DEFAULT clock_timestamp(),
  op "char" NOT NULL, old jsonb, new jsonb)
  WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000)"""
_FUNCTION = """CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
  {settings}
AS {tag}
DECLARE o jsonb; n jsonb;
BEGIN
  IF tg_op = 'TRUNCATE' THEN
    IF tg_argv[0] = 'T' OR NOT coalesce((SELECT c.xid = pg_current_xact_id() AND c.op IN ('T', 'X')
        FROM {changes} c ORDER BY c.id DESC LIMIT 1), false) THEN
      INSERT INTO {changes} (op) VALUES (tg_argv[0]::"char");
    END IF;
    RETURN NULL;
  END IF;
  BEGIN
    IF tg_op <> 'INSERT' THEN o := {old}; END IF;
    IF tg_op <> 'DELETE' THEN n := {new}; END IF;
  EXCEPTION WHEN OTHERS THEN
    INSERT INTO {changes} (op) VALUES ('X');
    RETURN NULL;
  END;
  IF tg_op = 'INSERT' THEN
    INSERT INTO {changes} (op, new) VALUES ('I', n);
  ELSIF tg_op = 'DELETE' THEN
    INSERT INTO {changes} (op, old) VALUES ('D', {kept});
  ELSIF {moved} THEN
    INSERT INTO {changes} (op, old) VALUES ('D', {kept});
    INSERT INTO {changes} (op, new) VALUES ('I', n);
  ELSE
    INSERT INTO {changes} (op, old, new) VALUES ('U', {updated}, n);
  END IF;
  RETURN NULL;
END {tag}"""


def statements(site: PostgreSqlSite, gap: str | None) -> Iterator[str]:
    """What installs the capture of a table, in order. `gap`: why changes may have been missed, if they may."""
    found, before, quote = site.facts, site.registered, site.quote
    if not site.captures_there:
        yield _CAPTURES.format(captures=site.captures)
    if not site.changes_there:
        yield _CHANGES.format(changes=site.changes)
        yield f"REVOKE ALL ON {site.changes} FROM PUBLIC"
    if (
        before is not None and before.oid != found.oid
    ):  # with its triggers on the former table, which would write here too
        yield f"DROP FUNCTION IF EXISTS {site.function}() CASCADE"
    yield _function(site)
    yield f"REVOKE ALL ON FUNCTION {site.function}() FROM PUBLIC"
    execute = f"EXECUTE FUNCTION {site.function}"
    if not site.has(found.oid, ROWS):
        events = "AFTER INSERT OR UPDATE OR DELETE"
        yield f"CREATE TRIGGER {quote(ROWS)} {events} ON {site.source} FOR EACH ROW {execute}()"
    if not site.has(found.oid, EMPTIED):
        yield f"CREATE TRIGGER {quote(EMPTIED)} AFTER TRUNCATE ON {site.source} FOR EACH STATEMENT {execute}('T')"
    for oid, schema, table in found.partitions:
        if not site.has(oid, EMPTIED):
            at = quote(schema, table)
            yield f"CREATE TRIGGER {quote(EMPTIED)} AFTER TRUNCATE ON {at} FOR EACH STATEMENT {execute}('X')"
    yield from site.enabling()
    if gap is not None:
        yield from gap_statements(site)
    yield _registration(site)
    if site.reader is not None:
        name = quote(site.reader)
        yield f"GRANT SELECT ON {site.changes}, {site.captures} TO {name}"
        yield f"GRANT SELECT ON SEQUENCE {site.sequence} TO {name}"


def _function(site: PostgreSqlSite) -> str:
    key = site.facts.key
    pairs = ", ".join(f"{literal(name)}, o->{literal(name)}" for name in key)
    parts = {
        "function": site.function,
        "changes": site.changes,
        "settings": " ".join(f"SET {name} = {value}" for name, value in SETTINGS.items()),
        "new": row_of(site, "NEW"),
        "old": row_of(site, "OLD"),
        "kept": "o" if site.old else f"jsonb_build_object({pairs})",
        "updated": "o" if site.old else "NULL",
        "moved": " OR ".join(f"n->{literal(name)} IS DISTINCT FROM o->{literal(name)}" for name in key),
    }
    tag = "$f$"
    while any(tag in part for part in parts.values()):
        tag = tag[:-1] + "f$"
    return _FUNCTION.format(tag=tag, **parts)


def row_of(site: PostgreSqlSite, name: str) -> str:
    """The expression that makes JSON of a row with this name."""
    row = f"to_jsonb({name})"
    texts = [one for one in site.facts.texts if one not in site.excluded]
    if texts:
        pairs = (f"{literal(one)}, {name.removesuffix('.*')}.{site.quote(one)}::text" for one in texts)
        row = f"{row} || jsonb_build_object({', '.join(pairs)})"
    return f"({row}) - ARRAY[{site.quote.texts(site.excluded)}]" if site.excluded else row


def _registration(site: PostgreSqlSite) -> str:
    found, before = site.facts, site.registered
    since = "0" if before is None else str(before.columns_since)
    if before is not None and common.retyped(before.columns, found.columns):
        since = f"(SELECT coalesce(max(id), 0) FROM {site.changes})"  # noqa: S608
    values = {
        "change_table": literal(site.changes_name),
        "source": literal(found.what),
        "source_oid": str(found.oid),
        "key_columns": f"ARRAY[{site.quote.texts(found.key)}]::text[]",
        "columns": f"{literal(json.dumps(found.columns))}::jsonb",
        "partitions": f"ARRAY[{', '.join(str(oid) for oid, _, _ in found.partitions)}]::oid[]",
        "with_old": str(site.old),
        "excluded": f"ARRAY[{site.quote.texts(site.excluded)}]::text[]",
        "accepted": f"ARRAY[{site.quote.texts(site.accepted)}]::text[]",
        "columns_since": since,
    }
    changed = ", ".join(f"{name} = excluded.{name}" for name in list(values)[1:])
    return (
        f"INSERT INTO {site.captures} ({', '.join(values)}) VALUES ({', '.join(values.values())}) "  # noqa: S608
        f"ON CONFLICT (change_table) DO UPDATE SET {changed}, removed_at = NULL"
    )


def gap_statements(site: PostgreSqlSite) -> Iterator[str]:
    """A gap, by a transaction that has its number before it draws an id, as triggers do."""
    yield "SELECT pg_current_xact_id()"
    yield f"INSERT INTO {site.changes} (op) VALUES ('X')"  # noqa: S608
