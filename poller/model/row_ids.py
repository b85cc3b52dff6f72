"""What one version of a row is known by where its key would be too long: hashes of it.

The key is `batch.key(row)`: table, key and cursor text. A sink's ledger holds 16 bytes of its SHA-256; a state document
lists a row that waits by the first 8 of them, as hexadecimal digits. So the one is found by the other. Primary and
ordering keys are listed by hashes too, of the database's text of their values (failures.md, rule 8).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache

from poller.model.cursor import KeyValue

KEY_BYTES = 16
_ID_BYTES = 8


def hash_of_key(key: str) -> bytes:
    """The `KEY_BYTES` bytes that a ledger holds."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:KEY_BYTES]


def id_of_hash(hashed: bytes) -> str:
    """The id in a state document of a row whose key has this hash."""
    return hashed[:_ID_BYTES].hex()


def id_of_key(key: str) -> str:
    """The id in a state document of a row with this key."""
    return id_of_hash(hash_of_key(key))


def id_of_values(values: Mapping[str, KeyValue | None]) -> str:
    """The id in a state document of a key with these values, in the order of its columns: 16 hexadecimal digits.

    Equal are the ids of keys whose values have the same texts one by one, so those of the number 1 and of the text `1`.
    NULL is a value of its own, unlike any text. What the columns are called does not count.
    """
    return id_of_texts(tuple(None if value is None else str(value) for value in values.values()))


def id_of_texts(texts: tuple[str | None, ...]) -> str:
    """The id of a key whose values have these texts."""
    return hashlib.sha256(_json(texts).encode()).digest()[:_ID_BYTES].hex()


id_of_frequent_texts = lru_cache(maxsize=16_384)(id_of_texts)
"""The same, of keys that many rows have: an ordering key, say."""


def _json(texts: tuple[str | None, ...]) -> str:
    """`json.dumps(texts)`, of plain texts in a fifth of its time: with lanes each row is hashed."""
    for text in texts or (None,):
        if text is None or not _PLAIN(text):
            return json.dumps(texts)
    return f"""["{'", "'.join(texts)}"]"""  # type: ignore[arg-type]


_PLAIN = re.compile(r"[ !#-\[\]-~]*", re.ASCII).fullmatch
"""True if a text is in JSON as it is, between quotation marks."""
