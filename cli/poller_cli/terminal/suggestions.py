"""Which command was probably meant by a word that names none; never one that does the opposite."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

_MEANT: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("start",): ("run",),
    ("stop",): ("pause",),
    ("unpause", "continue", "restart", "go"): ("resume",),
    ("kill", "abort", "unlock", "release", "break"): ("cancel",),
    ("rewind", "seek"): ("reset",),
    ("rollback", "revert", "restore"): ("undo",),
    ("skip", "ignore"): ("quarantine add",),
    ("retry", "replay", "redeliver"): ("quarantine replay",),
    ("dlq", "failed", "poison", "errors"): ("quarantine",),
    ("logs", "log", "audit", "events"): ("history",),
    ("ls", "list", "ps", "lag", "show"): ("status",),
    ("top", "tail", "follow"): ("watch",),
    ("doctor", "diagnose", "test", "validate"): ("check",),
    ("new", "setup", "config", "create"): ("init",),
    ("page", "ui", "web"): ("dashboard",),
    ("export", "backup", "save"): ("checkpoint export",),
    ("clone", "copy"): ("checkpoint clone",),
    ("migrate",): ("checkpoint import",),
    ("version",): ("--version",),
}
"""Words that people type for a command of another name."""
_NOW = {"export-checkpoint": "checkpoint export", "clone-checkpoint": "checkpoint clone", "import": "checkpoint import"}
"""What earlier names are called now: those are suggested."""
_OPPOSITES = {"pause": "resume", "resume": "pause"}
_CLOSE = 0.8


def instead(word: str, commands: Collection[str]) -> tuple[str, ...]:
    """The commands that were probably meant, without `poller`; none if that is not clear."""
    return tuple(dict.fromkeys(_NOW.get(name, name) for name in _meant(word.lower(), commands)))


def _meant(word: str, commands: Collection[str]) -> tuple[str, ...]:
    for words, meant in _MEANT.items():
        if word in words:
            return meant
    begin = tuple(name for name in commands if len(word) > 1 and name.startswith(word))
    if len(begin) == 1:
        return begin
    parts = tuple(name for name in commands if word in name.split("-"))
    if parts:
        return parts
    close = difflib.get_close_matches(word, commands, n=1, cutoff=_CLOSE)
    return tuple(name for name in close if _OPPOSITES.get(name) != word)
