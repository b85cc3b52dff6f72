"""What a sentence about an unknown name ends with, or what follows it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHOWN = 10


def suggestion(name: str, known: list[str]) -> str:
    """How a sentence about an unknown name ends: with what was probably meant, or with what there is."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f'; did you mean "{close[0]}"?'
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN + 1 else ""
    return f"; there are: {', '.join(known[:_SHOWN] if more else known)}{more}." if known else "."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence with the most similar known name, or with some of them."""
    names = list(known)
    folded = {n.lower(): n for n in names}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    if near:
        return f"Did you mean {folded[near[0]]!r}?"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"There are: {shown}." if names else ""
