"""Quoting texts in SQL, ours and the statements that a person copies and runs: names of prepared transactions and of
users are chosen by others than the administrator who runs them."""

from __future__ import annotations

import re


def escape_colons(sql: str) -> str:
    """SQL that `sqlalchemy.text` passes on unchanged, without reading `:name` as a parameter."""
    return sql.replace(":", "\\:")


def literal(text: str) -> str:
    """A text in PostgreSQL's SQL. One with a backslash or unprintable characters is written with escapes (`E'...'`),
    which mean the same whatever `standard_conforming_strings` says."""
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
    """What CURRENT_USER() of MariaDB and MySQL returns, as GRANT takes it: `'reader'@'%'`. Names other than plain ones
    are in backquotes, where a backslash is literal whatever `sql_mode` says."""
    parts = user.rsplit("@", 1)
    if all(re.fullmatch(r"[\w.%:/-]*", part, re.ASCII) for part in parts):
        return "@".join(f"'{part}'" for part in parts)
    return "@".join("`" + part.replace("`", "``") + "`" for part in parts)
