"""PostgreSQL's row-level security: a policy hides rows from the poller's user, and a row that is hidden when the cursor
passes it is never delivered. A view reads with its owner's rights, unless it is `security_invoker`.
"""

from __future__ import annotations

import sqlalchemy as sa

from poller.databases import catalog
from poller.model.finding import Finding, error, ok
from poller.sources.checks import Examined
from poller.sources.columns.uniqueness import quoted
from poller.sources.postgresql.origin import named_in

_HIDING = sa.text("""
with recursive reached (oid, asks) as (
    select r.oid, (select u.oid from pg_roles u where u.rolname = current_user)
      from unnest(cast(:roots as oid[])) as r (oid)
  union
    select d.refobjid, case when exists (
               select from pg_options_to_table(v.reloptions) o
                where o.option_name = 'security_invoker' and cast(o.option_value as boolean))
           then a.asks else v.relowner end
      from reached a
      join pg_class v on v.oid = a.oid and v.relkind = 'v'
      join pg_rewrite w on w.ev_class = v.oid and w.ev_type = '1'
      join pg_depend d on d.classid = cast('pg_rewrite' as regclass) and d.objid = w.oid
           and d.refclassid = cast('pg_class' as regclass) and d.refobjid <> v.oid
)
select cast(cast(c.oid as regclass) as text) as relation, cast(u.rolname as text) as role
  from reached a
  join pg_class c on c.oid = a.oid and c.relrowsecurity
  join pg_roles u on u.oid = a.asks and not u.rolsuper and not u.rolbypassrls
 where c.relforcerowsecurity or not pg_has_role(u.oid, c.relowner, 'usage')
 order by 1, 2
""")


def row_security(asked: Examined) -> list[Finding]:
    """Whether a policy may hide rows of the table, or of any that a view or query reads."""
    connection, o = asked.database.connection(), asked.options
    roots = named_in(connection, None if o.table is None else quoted(o.table, o.schema_name), o.query)
    hiding = catalog.rows(connection, _HIDING, {"roots": roots})
    if not hiding:
        return [ok("row_security", "no row-level security applies")]
    relations = ", ".join(f"{row.relation} (for {row.role})" for row in hiding)
    roles = dict.fromkeys(row.role for row in hiding)
    return [
        error(
            "row_security",
            f"Row-level security applies to {relations}: rows that a policy hides when the poller passes them are never"
            " delivered.",
            " ".join(f"ALTER ROLE {asked.name(role)} BYPASSRLS;" for role in roles),
        )
    ]
