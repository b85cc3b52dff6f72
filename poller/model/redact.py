"""Making an error's text fit to be stored and shown: one line, bounded, without secrets (protocol 9).

What a handler raises may quote anything. Known shapes of secrets are cut out; what the shape does not tell cannot be
known, which is why `error_text = false` exists.
"""

from __future__ import annotations

import re

LIMIT = 300
"""At most so many characters are kept."""

_NAMES = (
    r"account[_-]?key|shared[_-]?access[_-]?(?:key|signature)|passphrase|password|passwd|pwd|secret|token|api[_-]?key|"
    r"access[_-]?key|functions[_-]?key"
)
# A value in quotes ends at its quote, or where the line was cut.
_QUOTED = r"b?(?P<q>[\"'])(?!\*\*\*(?P=q))(?:[^\\\"'\n]|\\[^\n]|(?!(?P=q))[\"'])*+(?:(?P=q)|\\?$)"
_BARE = r"(?:\{(?:[^}\r\n]|\}\}){0,128}\}|(?:bearer |basic )?[^\s;&]+)"
# NAME= and name: and 'name': and X-Name: and NAME%3D. A name is tried once, from its beginning.
_IS = r"[\"']?(?:\s*[=:]\s*+|%3D)"
_NAME = rf"(?<![\w-])(?:[\w-]*(?:{_NAMES})|(?:[\w-]*-)?sig){_IS}"
# Only one of an Azure identity's classes is named so before a colon.
_CREDENTIAL = r"(?<![\w-])(?:[\w-]*credentials?(?:\s*=\s*+|%3D)|[\"'][\w-]*credentials?[\"']\s*:\s*+)"
_HEADER = r"(?<![\w-])(?:[\w-]*authorization|(?:set-)?cookie)(?:[\"']\s*[=:,]|\s*[=:]|%3D)\s*+"
_SPOKEN = r"\b(?:password|passwd|pwd|passphrase|identified by)\s+(?:is\s+|was\s+)?"
_OPTION = rf"(?<![^\s\"'])--?(?:[\w-]*-)?(?:{_NAMES})\s++(?!-)"

_PRIVATE_KEY = (
    r"-----BEGIN (?:(?!PRIVATE KEY)[A-Z0-9]+ )*+PRIVATE KEY-----"
    r"(?:(?!-----END )[\s\S])*+(?:-----END [A-Z0-9 ]*-----)?"
)

# None may cost more than the text's length: what is scanned is taken (`*+`), bounded, or begins at one place only.
_SHAPES = tuple(
    (re.compile(shape, re.IGNORECASE | re.MULTILINE), instead)
    for shape, instead in (
        (_PRIVATE_KEY, "***"),
        # SQLAlchemy takes all up to the last @ for the password, slashes too; in a web address a slash ends it.
        (r"(?<!http:)(?<!https:)(?<=:)//[^\s/@:]*:(?:[^\s\"':]|:(?!//)|[\"'](?![\s,;:)\]}]|$))*@", "//***@"),
        (r"(?<=://)[^\s/@:]*:[^\s/]*@", "***@"),
        (rf"(?P<name>{_HEADER}){_QUOTED}", r"\g<name>\g<q>***\g<q>"),
        (rf"(?P<name>{_HEADER})(?![\"']?\*\*\*)(?!b?[\"'])[^\n]+", r"\g<name>***"),
        (rf"(?P<name>{_NAME}|{_CREDENTIAL}|{_SPOKEN}|{_OPTION}){_QUOTED}", r"\g<name>\g<q>***\g<q>"),
        (
            rf"(?P<name>{_NAME}|{_CREDENTIAL}|{_OPTION})(?!b?[\"']|(?<=using password: )(?:yes|no)\)){_BARE}",
            r"\g<name>***",
        ),
        (r"(?P<name>[?&]code=)[^\s&\"'#;]+", r"\g<name>***"),
        (r"\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}", r"\1 ***"),
        (r"\b(sharedkey(?:lite)?)\s+[\w-]+:[a-z0-9+/=_-]+", r"\1 ***"),
        (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", "***"),
        (r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{86}==", "***"),
    )
)


def redact(text: str) -> str:
    """The text with every known shape of secret replaced by `***`: passwords in URLs, keys and signatures of
    connection strings, headers that authorize, cookies, passwords of commands and of SQL, bearer tokens, private keys,
    storage account keys. What is done twice changes nothing more, and a long text costs what its length does.

    Names of files may hold what no UTF-8 can say (lone surrogates); what is stored and logged is UTF-8.
    """
    for shape, instead in _SHAPES:
        text = shape.sub(instead, text)
    return text.encode("utf-8", "replace").decode()


def first_line(text: str, limit: int = LIMIT) -> str:
    """The first non-empty line, redacted and bounded."""
    line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    line = redact(line)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def error_line(error: BaseException) -> str:
    """What an error says, as `first_line`; empty where it fails even at that."""
    try:
        return first_line(str(error))
    except Exception:  # noqa: BLE001 - an exception's own __str__ may raise anything
        return ""
