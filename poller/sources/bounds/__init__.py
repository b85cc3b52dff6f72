"""Below what rows are read (sources.md, "Rows that commit late"): one module per way to know it.

A way to know the bound is a `BoundStrategy`: `sample(connection) -> Bound`, called before every page on the source's
autocommit connection, in statements of which each has its own snapshot, never the page's. The page then reads
`cursor < CAST(:bound AS type)`. `Bound.kind == "none"` means that there is no bound. Any other kind with a `value` of
None means that it is not known yet, and no row is read. `MonotonicBound` wraps every strategy: it keeps the bound from
moving back, and waits for a clock that did.

To add one: a module beside this one with `choose(wanted, context, connection)`, which returns a strategy, or the
reason (a text) why only a delay is left. What a strategy may know is in `BoundContext`, whose `bound()` turns an
instant into a `Bound` in the column's own form, rounded down and one unit less.
"""

from __future__ import annotations

from importlib import import_module

from sqlalchemy.engine import Connection

from poller.databases.kinds import KINDS
from poller.errors import ConfigError
from poller.model.cursor import CursorKind
from poller.sources.bounds.base import BoundContext, BoundStrategy
from poller.sources.bounds.heuristic import Heuristic, HighestSeen
from poller.sources.bounds.monotonic import MonotonicBound
from poller.sources.bounds.none import NoBound

__all__ = ["WANTED", "BoundContext", "BoundStrategy", "Heuristic", "MonotonicBound", "NoBound", "check", "choose"]

WANTED = ("auto", "exact", "strict", "delay", "none")
"""What the key `bound` may say (design, "Configuration")."""


def check(wanted: str, kind: CursorKind, family: str | None = None) -> None:
    """Refuse a bound that does not exist for a kind of cursor or a family of databases; needs no connection.

    Raises: ConfigError naming `bound` or `cursor_kind`.
    """
    if wanted not in WANTED:
        raise ConfigError(
            f"`bound` is {wanted!r}, not one of {', '.join(WANTED)}.", key="bound", next_step='Use "auto".'
        )
    owner = next((name for name, known in KINDS.items() if known.own_cursor == kind), None)
    if owner is not None and wanted not in ("auto", "exact", "none"):
        raise ConfigError(
            f"`bound` is {wanted}, but the database itself bounds a column of kind {kind}.",
            key="bound",
            next_step='Use "auto".',
        )
    if family is None:
        return
    if owner is not None and family != owner:
        raise ConfigError(
            f"`cursor_kind` is {kind}, which only {owner} has, and `url` names a {family} database.",
            key="cursor_kind",
            next_step='Use "timestamp+pk" or "integer+pk".',
        )
    named = KINDS[family].bounds if family in KINDS else ()
    if wanted not in ("auto", "delay", "none") and wanted not in named:
        raise ConfigError(
            f"`bound` is {wanted}, which {family} does not support.",
            key="bound",
            next_step=f"Use one of {', '.join(('auto', *named, 'delay'))}.",
        )


def choose(wanted: str, context: BoundContext, connection: Connection) -> BoundStrategy:
    """The strategy that `bound` asks for; for `auto` the best that this database and the user's privileges allow. One
    that was asked for by name is never replaced by a delay.

    Raises: ConfigError naming `bound` (not available here), SourceError (a standby), what the driver raises.
    """
    if wanted == "none":
        return NoBound("asked for")
    reason = "asked for"
    if wanted != "delay":
        home = import_module(f"poller.sources.{context.family}.bound")
        found: BoundStrategy | str = home.choose(wanted, context, connection)
        if not isinstance(found, str):
            return found
        if wanted != "auto":
            raise ConfigError(
                f"`bound` is {wanted}, which is not available here: {found}.",
                key="bound",
                next_step='Fix that, or set bound = "auto", which then falls back to a delay.',
            )
        reason = found
    return Heuristic(context, reason) if context.kind == "timestamp+pk" else HighestSeen(context, reason)
