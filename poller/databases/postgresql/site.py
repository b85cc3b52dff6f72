"""The table that is captured, the names beside it, what was installed there, and what refuses it."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy.engine import Connection

from poller.databases import capture as common
from poller.databases.capture import CaptureRefusal, CaptureRequest, Quoter, Standing
from poller.databases.postgresql import facts as catalog
from poller.databases.postgresql.facts import Facts, PostgreSqlRegistered

LONGEST = 63
"""Bytes of a name."""
ROWS, EMPTIED = "!poller_capture", "!poller_truncate"
"""The names of the triggers. Triggers of a row fire in the order of their names, and ours must be the first."""
ALWAYS = "always"
"""Kept beside what was accepted: capture also what replication applies."""

_OTHER_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}


def literal(text: str) -> str:
    """The text as a constant, whatever `standard_conforming_strings` is where it is read."""
    quoted = text.replace("'", "''")
    return "E'" + quoted.replace("\\", "\\\\") + "'" if "\\" in text else f"'{quoted}'"


class PostgreSqlSite:
    """The table, the names beside it, and what was installed."""

    def __init__(self, connection: Connection, wanted: CaptureRequest, quote: Quoter) -> None:
        given = [wanted.table] if wanted.schema is None else [wanted.schema, wanted.table]
        found = catalog.facts(connection, quote(*given))
        if found is None:
            raise CaptureRefusal(
                f"{'.'.join(given)}: there is no such table that this database user can see.",
                next_step="Look at `table` and `schema` of the poller's source.",
            )
        self.quote = quote
        self.reader = wanted.reader if wanted.reader and catalog.is_other_role(connection, wanted.reader) else None
        self.facts: Facts = found

        def name(pattern: str) -> str:
            return common.named(pattern, found.table, LONGEST, lambda text: len(text.encode()))

        self.source = quote(found.schema, found.table)
        self.changes_name = name("poller_{}_changes")
        self.changes_shown = f"{found.schema}.{self.changes_name}"
        self.changes = quote(found.schema, self.changes_name)
        self.captures = quote(found.schema, common.CAPTURES)
        self.changes_there = catalog.table_of(connection, self.changes) is not None
        self.captures_there = catalog.table_of(connection, self.captures) is not None
        self.function = quote(found.schema, name("poller_capture_{}"))
        self.registered: PostgreSqlRegistered | None = catalog.registered(connection, self.captures, self.changes_name)
        self._function_oid = catalog.function_of(connection, self.function)
        before = self.registered
        self.old = wanted.old if wanted.old is not None else before is None or before.old
        self.excluded = common.left_out(wanted, () if before is None else before.excluded, found.columns)
        asked = {*wanted.accepted, *([ALWAYS] if wanted.always else [])}
        self.accepted = tuple(sorted({*asked, *(() if before is None else before.accepted)}))
        self._always = ALWAYS in self.accepted

    @property
    def function_there(self) -> bool:
        """True if there is a function of our function's name."""
        return self._function_oid is not None

    @property
    def sequence(self) -> str:
        """That of the change table's ids. The server cuts its name as it cuts ours."""
        name = common.named("{}_id_seq", self.changes_name, LONGEST, lambda text: len(text.encode()))
        return self.quote(self.facts.schema, name)

    def has(self, oid: int, name: str) -> bool:
        """True if this relation has the trigger, with our function."""
        return any(
            one.table == oid and one.name == name and one.function == self._function_oid for one in self.facts.triggers
        )

    def check_triggers(self) -> None:
        """Raises: Refusal, for triggers of another capture: of the table before it was renamed, of its parent, or of a
        partition."""
        for one in self._ours():
            if one.function != self._function_oid:
                raise CaptureRefusal(
                    f"{self.facts.what}: it has a trigger {one.name} of another capture, which calls {one.calls}.",
                    next_step="Remove that capture (poller capture NAME --remove). If its table was renamed: "
                    f"DROP FUNCTION {one.calls} CASCADE.",
                )

    def standing(self) -> tuple[Standing, str | None]:
        """What is there, and why changes may have been missed."""
        before, found = self.registered, self.facts
        if before is None:
            return "absent", None
        if before.removed:
            return "removed", None  # the gap was written when it was removed
        if not self.changes_there:
            return "damaged", "the change table is missing"
        if before.oid != found.oid:
            return "damaged", "the table is another one than was captured (swapped or created again)"
        if not (self.has(found.oid, ROWS) and self.has(found.oid, EMPTIED)):
            return "damaged", "a trigger of poller is missing"
        if any(one.enabled in "DR" for one in self._ours()):
            return "damaged", "a trigger of poller is disabled"
        if before.key != found.key:
            return "damaged", "the key is another one"
        if gone := [oid for oid in before.partitions if oid not in {one[0] for one in found.partitions}]:
            return "damaged", f"{len(gone)} of its partitions were dropped or detached"
        return "installed", None

    def enabling(self) -> Iterator[str]:
        """The statements that enable our triggers, as asked for."""
        wrong = [one for one in self._ours() if one.enabled in "DR"]
        at = {self.facts.oid: self.source} | {
            oid: self.quote(schema, table) for oid, schema, table in self.facts.partitions
        }
        if self._always:
            for relation in at.values():
                for name in (ROWS, EMPTIED):
                    yield f"ALTER TABLE {relation} ENABLE ALWAYS TRIGGER {self.quote(name)}"
        else:
            for one in wrong:
                yield f"ALTER TABLE {at[one.table]} ENABLE TRIGGER {self.quote(one.name)}"

    def warnings(self) -> Iterator[str]:
        """What is not seen, or may go wrong."""
        found = self.facts
        if self.registered is not None:
            yield from common.left_out_and_gone(found.what, self.registered.excluded, found.columns)
        for one in found.triggers:
            if one.table != found.oid or not one.is_after_row or one.name in (ROWS, EMPTIED):
                continue
            if one.name.encode() < ROWS.encode():
                yield (
                    f"{found.what}: trigger {one.name} runs before capture and may write this table: rename it to sort "
                    f'after "{ROWS}".'
                )
            else:
                yield (
                    f"{found.what}: if trigger {one.name} changes other rows of this table that the same statement "
                    "changes, their changes may be in another order."
                )
        if found.owner != found.user:
            yield (
                f"{found.what}: it belongs to {found.owner}, and its trigger runs as {found.user}, with casts to json "
                f"of its columns' types. Install it as {found.owner}, unless you trust who may make such a cast."
            )
        if found.partitions:
            yield f"{found.what}: rows of a partition that is attached, detached or dropped are no changes of rows."
        if not self._always:
            yield f"{found.what}: rows that logical replication applies are not captured (--always captures them)."

    def _ours(self) -> list[catalog.Trigger]:
        return [one for one in self.facts.triggers if one.name in (ROWS, EMPTIED)]


def check(found: Facts) -> None:
    """Raises: Refusal, for a table that cannot be captured."""
    kind = _OTHER_KINDS.get(found.kind) or {"t": "a temporary table", "u": "an unlogged table"}.get(found.persistence)
    if kind is not None or found.kind not in "rp":
        more = ", which a crash empties without a trace" if found.persistence == "u" else ""
        raise CaptureRefusal(
            f"{found.what}: it is {kind or 'no table'}{more}, and only tables that last can be captured.",
            next_step="Name the table that holds its rows." if found.kind in "vmf" else "Use an ordinary table.",
        )
    if found.version < 130_000:
        raise CaptureRefusal(f"{found.what}: the server is older than PostgreSQL 13.", next_step="Use a newer one.")
    if found.children:
        raise CaptureRefusal(
            f"{found.what}: the table has children by INHERITS, whose changes its triggers do not see.",
            next_step="Capture each child, with a poller of its own.",
        )
    if found.deferrable:
        raise CaptureRefusal(
            f"{found.what}: the key is DEFERRABLE, so a row could be inserted before another of its key is deleted.",
            next_step="Make the constraint again without DEFERRABLE.",
        )


def check_rights(found: Facts) -> None:
    """Raises: Refusal, for a user who may not create triggers."""
    missing = [] if found.may_trigger else [f"TRIGGER on {found.what}"]
    missing += [] if found.may_create else [f"CREATE on schema {found.schema}"]
    missing += [] if found.may_read else [f"SELECT on {found.what}"]
    if missing:
        raise CaptureRefusal(
            f"{found.what}: the user {found.user} may not create triggers there ({', '.join(missing)} is missing).",
            next_step="Grant that, or name a setting with the URL of a user who may: --url-env SETTING.",
        )
