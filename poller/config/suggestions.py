"""What a sentence about an unknown name ends with."""

from __future__ import annotations

import difflib

_SHOWN = 10


def suggestion(name: str, known: list[str]) -> str:
    """How a sentence about an unknown name ends: with what was probably meant, or with what there is."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f'; did you mean "{close[0]}"?'
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN + 1 else ""
    return f"; there are: {', '.join(known[:_SHOWN] if more else known)}{more}." if known else "."
