"""A document's bytes in an object, so that no two versions have one ETag.

S3's ETag is a hash of an object's bytes: a document that is written twice as it is would keep its tag, and one that was
changed and changed back would have an old tag again. So each write adds 64 blanks of its own (spaces and tabs, at
random) behind a line break. For other readers they are white space of JSON; the store takes them away when it reads.
"""

from __future__ import annotations

import re
import secrets

_BITS = 64
PADDED = _BITS + 1
"""Bytes that a write adds to a document."""
_PADDING = re.compile(rb"\n[ \t]{%d}\Z" % _BITS)
_BLANKS = str.maketrans("01", " \t")


def padded(body: bytes) -> bytes:
    """A document as it is written."""
    return body + b"\n" + format(secrets.randbits(_BITS), f"0{_BITS}b").translate(_BLANKS).encode()


def unpadded(content: bytes) -> bytes:
    """The document in an object's bytes; what others wrote comes back as it is."""
    return content[:-PADDED] if _PADDING.search(content, max(0, len(content) - PADDED)) else content
