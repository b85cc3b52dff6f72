"""A page as HTML, fenced in by its headers: it loads nothing, runs no script and takes no style but its own.

`default-src 'none'` alone would also forbid the page to ask for itself again; `connect-src 'self'` allows that, and
nothing else: no other address can be asked, whatever gets into the page.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from poller.http.messages import ALWAYS, Answer
from poller.model.escape import LONGEST_SENTENCE, shown

FOLDER = Path(__file__).with_name("templates")
_CSP = (
    "default-src 'none'; style-src 'nonce-{style}'; script-src 'nonce-{script}'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HTML = ("Content-Type", "text/html; charset=utf-8")


def rendered(template: str, facts: Any = None, *, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> Answer:
    """The answer with a page: a template of the folder, filled with what it calls `page`. Its nonces are new each time.

    Args:
        status: of the answer. headers: further ones.
    """
    style, script = secrets.token_urlsafe(18), secrets.token_urlsafe(18)
    text = _environment().get_template(template).render(page=facts, style_nonce=style, script_nonce=script)
    body = text.encode("utf-8", "replace")
    policy = _CSP.format(style=style, script=script)
    always = [(name, policy if name == "Content-Security-Policy" else value) for name, value in ALWAYS]
    return Answer(status, (_HTML, *always, *headers), body, len(body))


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _plain(value: Any) -> Any:
    """Every text that a template writes: in one line, cut, and without characters that turn or hide what follows."""
    return shown(value, LONGEST_SENTENCE) if type(value) is str else value  # what a macro gave is no plain text
