"""Texts in SQL, ours and what a person copies and runs: whatever they hold, the statement is the one that is shown.

Names of prepared transactions and of users are chosen by others than the administrator who pastes.
"""

from __future__ import annotations

import re


def escape_colons(sql: str) -> str:
    """SQL that `sqlalchemy.text` hands on as it is, without taking `:name` for a parameter."""
    return sql.replace(":", "\\:")


def literal(text: str) -> str:
    """A text in PostgreSQL's SQL. With a backslash or what does not print it is written with escapes (`E'...'`), which
    mean the same whatever `standard_conforming_strings` says."""
    doubled = text.replace("'", "''")
    if "\\" not in text and text.isprintable():
        return f"'{doubled}'"
    return "E'" + "".join(map(_escaped, doubled)) + "'"


def _escaped(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if char.isprintable():
        return char
    return f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08X}"


def mysql_account(user: str) -> str:
    """What CURRENT_USER() of MariaDB and MySQL says, as GRANT takes it: `'reader'@'%'`. In backquotes, where a
    backslash is one whatever `sql_mode` says, unless it is plain."""
    parts = user.rsplit("@", 1)
    if all(re.fullmatch(r"[\w.%:/-]*", part, re.ASCII) for part in parts):
        return "@".join(f"'{part}'" for part in parts)
    return "@".join("`" + part.replace("`", "``") + "`" for part in parts)
