"""`host.json` of a function app, read as the Functions host reads it: with comments, and commas before an end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_TEXT = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"({_TEXT})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMA = re.compile(rf"({_TEXT})|,(?=\s*[}}\]])", re.DOTALL)


def read_host(folders: Iterable[Path]) -> tuple[Path | None, Mapping[str, Any] | None]:
    """The first `host.json` of these folders and what it says: nothing, if there is no such file; None, if it
    cannot be read, or is not a JSON object."""
    file = next((folder / "host.json" for folder in folders if (folder / "host.json").is_file()), None)
    if file is None:
        return None, {}
    try:
        text = _COMMENT.sub(lambda found: found[1] or " ", file.read_text(encoding="utf-8-sig"))
        said = json.loads(_COMMA.sub(lambda found: found[1] or "", text))
    except (OSError, ValueError, RecursionError):
        return file, None
    return file, said if isinstance(said, dict) else None
