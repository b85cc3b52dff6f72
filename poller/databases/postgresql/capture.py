r"""Capture in PostgreSQL: one function and a trigger for rows, a trigger for TRUNCATE, all in one transaction.

The function is SECURITY DEFINER: writers need no right on the change table. What it runs is qualified, and the settings
that decide how values become JSON are its own. It makes rows of `to_jsonb`, so no ALTER TABLE makes a writer fail.
A TRUNCATE of one partition fires no trigger of its parent, so each partition has one of its own, which writes a gap:
the keys are not known. A TRUNCATE of the parent fires the partitions' triggers too, after its own: those stay silent.
A row that is no `jsonb`, such as one with \u0000 in a column of type json, is a gap: its writer does not fail.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.databases import capture as common
from poller.databases.capture import (
    Busy,
    CapturePlan,
    CaptureRefusal,
    CaptureRequest,
    Quoter,
    Record,
    Removed,
    check_columns,
    run,
    transaction,
)
from poller.databases.errors import codes
from poller.databases.postgresql.site import (
    EMPTIED,
    ROWS,
    PostgreSqlSite,
    callers,
    function_of,
    literal,
    writers,
)
from poller.databases.pruning import Rules

_BUSY = frozenset({"55P03", "40P01", "57014"})
_DENIED = "42501"
_CHANGE_BYTES, _WRITE_MICROSECONDS = 84, 7.0
"""The cost of a change without its rows, measured on PostgreSQL 15: 8 columns, 10,000 rows by one statement."""


_SHORTER = """SELECT set_config('lock_timeout', least({most}, greatest(1, floor(500 * extract(epoch FROM
  current_setting('deadlock_timeout')::interval))))::text, true)"""


class PostgreSqlCapture:
    """See `poller.databases.capture.Capture`."""

    def __init__(self, connection: Connection, wanted: CaptureRequest) -> None:
        self._connection = connection
        self._wanted = wanted
        self._quote = Quoter(connection, literal)

    def plan(self) -> CapturePlan:
        """See `Capture.plan`."""
        with transaction(self._connection, "BEGIN READ ONLY"):
            return self._planned(PostgreSqlSite(self._connection, self._wanted, self._quote))

    def install(self) -> CapturePlan:
        """See `Capture.install`."""
        with self._locking():
            site = PostgreSqlSite(self._connection, self._wanted, self._quote)
            plan = self._planned(site)
            self._spare_writers(site)
            for statement in plan.statements:
                run(self._connection, statement)
            self._revoke(PostgreSqlSite(self._connection, self._wanted, self._quote))
        return plan

    def _revoke(self, site: PostgreSqlSite) -> None:
        """Take what default privileges gave to others. Reading stays."""
        for kind, name in (("TABLE", site.changes), ("SEQUENCE", site.sequence), ("TABLE", site.captures)):
            for role, rights in writers(self._connection, name):
                run(self._connection, f"REVOKE {rights} ON {kind} {name} FROM {role}")
        for role in callers(self._connection, site.function):
            run(self._connection, f"REVOKE ALL ON FUNCTION {site.function}() FROM {role}")

    def _spare_writers(self, site: PostgreSqlSite) -> None:
        """Wait for a shorter time if more than one table is locked: a writer that waits for one of them and has
        another must not be the first to look for a deadlock, since the server ends who finds it."""
        before = site.registered
        if site.partitions or (before is not None and before.oid != site.oid):
            run(self._connection, _SHORTER.format(most=round(common.LOCK_SECONDS * 1000)))

    def remove(self, *, changes: bool) -> Removed:
        """See `Capture.remove`."""
        with self._locking():
            site = PostgreSqlSite(self._connection, self._wanted, self._quote)
            if site.registered is None:
                raise common.not_installed(site.what, self._wanted.poller)
            self._spare_writers(site)
            there = function_of(self._connection, site.function) is not None
            if there:  # with its triggers, which only the table's owner may drop by themselves
                run(self._connection, f"DROP FUNCTION {site.function}() CASCADE")
            row = f"WHERE change_table = {literal(site.changes_name)}"
            if not changes:
                if site.changes_there and not site.registered.removed:
                    for statement in gap_statements(site):
                        run(self._connection, statement)
                now = f"removed_at = now() {row} AND removed_at IS NULL"
                run(self._connection, f"UPDATE {site.captures} SET {now}")  # noqa: S608
            else:
                common.forget(self._connection, site.changes, site.captures, row)
        return Removed(site.what, site.changes_shown, there, changes)

    @contextmanager
    def record(self, most: int) -> Iterator[Record]:
        """See `Capture.record`."""
        with transaction(self._connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            site = PostgreSqlSite(self._connection, self._wanted, self._quote)
            if site.registered is None or site.registered.removed:
                raise common.not_installed(site.what, self._wanted.poller)
            for name, value in SETTINGS.items():
                run(self._connection, f"SET LOCAL {name} = {value}")
            run(self._connection, "SET LOCAL row_security = off")  # rows that a policy hides are an error
            newest = run(self._connection, f"SELECT coalesce(max(id), 0) FROM {site.changes}").scalar_one()  # noqa: S608
            yield Record(
                table=site.what,
                changes=site.changes_shown,
                key=site.key,
                since=site.registered.columns_since,
                replaces=False,
                rows_of_changes=common.changes_after(
                    self._connection,
                    f"SELECT id, op::text, old::text, new::text FROM {site.changes}",  # noqa: S608
                    newest - most,
                ),
                rows=self._rows(site),
            )

    def _rows(self, site: PostgreSqlSite) -> Iterator[str]:
        row = row_of(site, "t.*")
        run(self._connection, f"DECLARE poller_rows NO SCROLL CURSOR FOR SELECT ({row})::text FROM {site.source} t")  # noqa: S608
        while page := run(self._connection, f"FETCH {common.PAGE} FROM poller_rows").all():
            yield from (text for (text,) in page)

    @contextmanager
    def _locking(self) -> Iterator[None]:
        """A transaction that waits a short time for locks, one at a time in the database. Raises: Busy; Refusal, if
        the server denies a right."""
        try:
            # READ COMMITTED: what was installed meanwhile is seen.
            with transaction(self._connection, "BEGIN ISOLATION LEVEL READ COMMITTED"):
                run(self._connection, f"SET LOCAL lock_timeout = '{common.LOCK_SECONDS}s'")
                run(self._connection, "SELECT pg_advisory_xact_lock(hashtext('poller capture'))")
                yield
        except DBAPIError as error:
            state = codes(error.orig)[0]
            if state in _BUSY:
                raise Busy from None
            if state == _DENIED:
                said = str(getattr(getattr(error.orig, "diag", None), "message_primary", None) or "a right is missing")
                raise CaptureRefusal(
                    f"{self._wanted.table}: the database denies it ({said}).",
                    next_step="Use the URL of a user who may: --url-env SETTING. Nothing was changed.",
                ) from None
            raise

    def _planned(self, site: PostgreSqlSite) -> CapturePlan:
        before = site.registered
        site.check()
        site.check_rights()
        check_columns(site.what, list(site.columns), site.key, site.excluded)
        if before is None and (site.changes_there or site.function_oid is not None):
            raise common.foreign(site.what, site.changes_shown if site.changes_there else site.function)
        site.check_triggers()
        standing, gap = site.standing()
        return CapturePlan(
            table=site.what,
            changes=site.changes_shown,
            key=site.key,
            columns=tuple(name for name in site.columns if name not in site.excluded),
            old=site.old,
            standing=standing,
            gap=gap,
            statements=tuple(statements(site, gap)),
            warnings=tuple(site.warnings()),
            cost=common.estimated(
                self._connection,
                f"(SELECT * FROM {site.source} LIMIT {common.SAMPLED}) t",  # noqa: S608
                f"pg_column_size({row_of(site, 't.*')})",
                len(site.columns),
                old=site.old,
                change=_CHANGE_BYTES,
                write=_WRITE_MICROSECONDS,
            ),
        )


# ---------------------------------------------------------------------------------------------------- what is installed
# Statements that are made of quoted names.

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
    before, quote = site.registered, site.quote
    if not site.captures_there:
        yield _CAPTURES.format(captures=site.captures)
    if not site.changes_there:
        yield _CHANGES.format(changes=site.changes)
        yield f"REVOKE ALL ON {site.changes} FROM PUBLIC"
    if (
        before is not None and before.oid != site.oid
    ):  # with its triggers on the former table, which would write here too
        yield f"DROP FUNCTION IF EXISTS {site.function}() CASCADE"
    yield _function(site)
    yield f"REVOKE ALL ON FUNCTION {site.function}() FROM PUBLIC"
    execute = f"EXECUTE FUNCTION {site.function}"
    if not site.has(site.oid, ROWS):
        events = "AFTER INSERT OR UPDATE OR DELETE"
        yield f"CREATE TRIGGER {quote(ROWS)} {events} ON {site.source} FOR EACH ROW {execute}()"
    if not site.has(site.oid, EMPTIED):
        yield f"CREATE TRIGGER {quote(EMPTIED)} AFTER TRUNCATE ON {site.source} FOR EACH STATEMENT {execute}('T')"
    for oid, schema, table in site.partitions:
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
    key = site.key
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
    texts = [one for one in site.texts if one not in site.excluded]
    if texts:
        pairs = (f"{literal(one)}, {name.removesuffix('.*')}.{site.quote(one)}::text" for one in texts)
        row = f"{row} || jsonb_build_object({', '.join(pairs)})"
    return f"({row}) - ARRAY[{site.quote.texts(site.excluded)}]" if site.excluded else row


def _registration(site: PostgreSqlSite) -> str:
    values = {
        "change_table": literal(site.changes_name),
        "source": literal(site.what),
        "source_oid": str(site.oid),
        "key_columns": f"ARRAY[{site.quote.texts(site.key)}]::text[]",
        "columns": f"{literal(json.dumps(site.columns))}::jsonb",
        "partitions": f"ARRAY[{', '.join(str(oid) for oid, _, _ in site.partitions)}]::oid[]",
        "with_old": str(site.old),
        "excluded": f"ARRAY[{site.quote.texts(site.excluded)}]::text[]",
        "accepted": f"ARRAY[{site.quote.texts(site.accepted)}]::text[]",
        "columns_since": common.columns_since(site.registered, site.columns, site.changes),
    }
    return common.upsert(site.captures, values)


def gap_statements(site: PostgreSqlSite) -> Iterator[str]:
    """A gap, by a transaction that has its number before it draws an id, as triggers do."""
    yield "SELECT pg_current_xact_id()"
    yield f"INSERT INTO {site.changes} (op) VALUES ('X')"  # noqa: S608


# -------------------------------------------------------------------------------------------------------------- pruning

PRUNING = Rules(
    chunk=5000,
    spared=0,
    session=("SET lock_timeout = '10s'",),
    begin=("BEGIN ISOLATION LEVEL READ COMMITTED",),
    lock=True,
    older="at < now() - make_interval(secs => :age)",
    size="SELECT pg_total_relation_size(to_regclass(quote_ident(coalesce(:schema, current_schema())) || '.' ||"
    " quote_ident(:table)))",
)
"""5,000 rows took at most 176 ms; autovacuum gives the room back."""
