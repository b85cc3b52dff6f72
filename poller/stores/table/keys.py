"""Names of documents as the two keys of an entity, and back.

A key holds letters, digits, `-` and `.` as they are, `_` for a slash, and `~` with two hexadecimal digits for each byte
of anything else: the service forbids slashes, backslashes, `#`, `?` and control characters in keys
(https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model). So a name that begins
with a prefix has a key that begins with the prefix's key.

The partition is the name's first two parts, `state_shop` for `state/shop/orders.json`: one query lists the documents
of an app. A name with one slash has the part before it, one without a slash is in `~root`; each log has a partition for
its lines. No encoded name begins with `~root` or `~log`, as `r` and `l` are no hexadecimal digits.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LONGEST = 512
"""Characters of a key: 1 KiB of UTF-16 (the service's own limit)."""
_ROOT = "~root"
_LOGS = "~log_"
_BEYOND = "~~"
"""Follows every key that begins alike: after `~` comes a digit or a letter."""
_TAKEN = re.compile(r"[^A-Za-z0-9.-]")
_MARK = re.compile(r"_|(?:~[0-9a-f]{2})+")


class EntityKeys(NamedTuple):
    """The two keys of an entity."""

    partition: str
    row: str


def keys_of(name: str) -> EntityKeys:
    """The keys of the document `name`."""
    first = name.find("/")
    cut = max(first, name.find("/", first + 1)) if first >= 0 else -1
    return (
        EntityKeys(_encoded(name[:cut]), _encoded(name[cut + 1 :])) if cut >= 0 else EntityKeys(_ROOT, _encoded(name))
    )


def name_of(partition: str, row: str) -> str:
    """The name of the document with these keys."""
    return _decoded(row) if partition == _ROOT else f"{_decoded(partition)}/{_decoded(row)}"


def lines_of(name: str) -> str:
    """The partition of the lines of the log `name`."""
    return f"{_LOGS}{_encoded(name)}"


def beginning_with(prefix: str) -> str:
    """The filter of a query for the documents whose names begin with `prefix`, and perhaps of some others."""
    keys = keys_of(prefix)
    if prefix.count("/") >= 2:
        return f"PartitionKey eq '{keys.partition}' and {_between('RowKey', keys.row)}"
    kind = prefix.partition("/")[0]
    if "/" in prefix:
        return _between("PartitionKey", _encoded(kind))
    documents = _between("PartitionKey", _encoded(kind)) if kind else f"not ({_between('PartitionKey', _LOGS)})"
    return f"({documents}) or PartitionKey eq '{_ROOT}'"


def _between(key: str, beginning: str) -> str:
    if not beginning:
        return f"{key} ge ''"
    return f"{key} ge '{beginning}' and {key} lt '{beginning}{_BEYOND}'"


def _encoded(text: str) -> str:
    return _TAKEN.sub(lambda found: "_" if found[0] == "/" else _bytes(found[0]), text)


def _bytes(character: str) -> str:
    return "".join(f"~{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def _decoded(key: str) -> str:
    return _MARK.sub(lambda found: "/" if found[0] == "_" else _text(found[0].replace("~", "")), key)


def _text(digits: str) -> str:
    return bytes.fromhex(digits).decode("utf-8", "replace")
