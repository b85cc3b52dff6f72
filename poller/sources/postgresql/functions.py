"""Functions that rows come from on PostgreSQL: what they read, and when it was committed, cannot be seen.

The plan shows which there are, behind views too; a SQL function that the planner inlines is no longer one there, and
its tables count as if they were named. PostgreSQL's own functions (generate_series, unnest, those that expand JSON) and
IMMUTABLE ones, which may not read tables (hstore's each), only expand their arguments.
"""

from __future__ import annotations

import json
import re
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_UNSEEN = sa.text("""
select cast(p.proname as text) as name, x.extname is not null as linked
  from pg_proc p
  left join pg_depend e on e.classid = cast('pg_proc' as regclass) and e.objid = p.oid and e.deptype = 'e'
  left join pg_extension x on x.oid = e.refobjid and x.extname = 'dblink'
 where p.pronamespace <> cast('pg_catalog' as regnamespace) and p.provolatile <> 'i'
   and (p.proname = any(cast(:scanned as text[])) or (p.proretset and p.proname = any(cast(:called as text[]))))
 order by linked desc, name limit 1
""")
_CALLED = re.compile(r'"((?:[^"]|"")+)"\(|([^\W\d][\w$]*)\(')


def unseen(connection: Connection, query: str, column: str) -> str | None:
    """Why it cannot be known that the rows of a query are this server's; None where they come from no function.

    Args:
        column: the cursor's; the other columns of the query are left out. Raises: what the driver raises.
    """
    quoted = '"' + column.replace('"', '""') + '"'
    select = f"select poller_query.{quoted} from (\n{query}\n) as poller_query"  # noqa: S608 - checked when configured
    sql = f"explain (verbose, format json) {select}"
    found: Any = connection.execute(sa.text(sql.replace(":", "\\:"))).scalar_one()
    tree = json.loads(found) if isinstance(found, str) else found
    scanned: set[str] = set()
    called: set[str] = set()
    nodes = [part["Plan"] for part in tree]
    while nodes:
        node = nodes.pop()
        below = node.get("Plans", [])
        nodes += [n for n in below if n.get("Parent Relationship") != "SubPlan" and not _is_value(n)]
        if node["Node Type"] == "Function Scan" and node.get("Schema") != "pg_catalog":
            scanned |= {str(node["Function Name"])} if "Function Name" in node else _names(node.get("Function Call"))
        if node["Node Type"] == "ProjectSet":
            called |= _names(" ".join(node.get("Output", [])))
    if not scanned and not called:
        return None
    row = connection.execute(_UNSEEN, {"scanned": sorted(scanned), "called": sorted(called)}).one_or_none()
    if row is None:
        return None
    if row.linked:
        return f"it reads by {row.name}, from a server with its own timestamps"
    return f"rows come from the function {row.name}, whose transactions cannot be seen"


def _is_value(node: Any) -> bool:
    """Whether a subquery is one value, not the rows of a WITH clause."""
    return node.get("Parent Relationship") == "InitPlan" and not str(node.get("Subplan Name", "")).startswith("CTE ")


def _names(text: str | None) -> set[str]:
    return {quoted.replace('""', '"') or plain for quoted, plain in _CALLED.findall(text or "")}
