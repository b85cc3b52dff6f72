"""Making an error's text safe to store and show: one line, of limited length, without secrets (protocol 9).

A handler's error may quote anything. Known shapes of secrets are removed; a secret of another shape cannot be
recognised, which is why `error_text = false` exists.
"""

from __future__ import annotations

import re
from functools import cache

from poller.model.escape import shown

LIMIT = 300
"""The number of characters that are kept."""
BEYOND = 8192
"""The number of characters after those that are searched for secrets too."""
LONGEST_SECRET = 4096
"""Characters. Where a longer text is cut, a secret up to this long may lose its end, and not be recognised."""

_NAMES = (
    r"account[_-]?key|storage[_-]?key|shared[_-]?access[_-]?(?:key|signature)|passphrase|passcode|password|passwd|pwd|secret|token|api[_-]?key|"
    r"access[_-]?key|functions[_-]?key|private[_-]?key|secret[_-]?key|encryption[_-]?key|signing[_-]?key|"
    r"instrumentation[_-]?key|subscription[_-]?key|master[_-]?key"
)
# Names that are the end of ordinary words, too: a compass, to bypass.
_SHORT = r"(?:[\w-]*[_-]|db|my|user|root|admin)?pass|(?:[\w-]*[_-])?sas|(?:[\w-]*-)?sig"
# A value in quotes ends at its quote, or where the line was cut; a doubled or escaped quote is part of it.
_QUOTED = (
    r"b?(?P<q>\"\"\"|'''|[\"'])(?!\*\*\*(?P=q))"
    r"(?:[^\\\"'\n]|\\[^\n]|(?P=q){2}|(?!(?P=q))[\"'])*+(?:(?P=q)|\\?$)"
)
# JSON in JSON: \"password\": \"...\"
_ESCAPED = r"(?P<q>\\+[\"'])(?!\*\*\*(?P=q))(?:(?!(?P=q))[^\n])*+(?:(?P=q)|$)"
_BARE = r"(?:\{(?:[^}\r\n]|\}\}){0,128}\}[^\s;&]*+|(?:bearer |basic )?[^\s;&]+)"
# NAME= and name: and 'name': and 'name' => and X-Name: and NAME%3D. A name is tried once, from its beginning.
_IS = r"(?:\\*[\"'])?(?:\s*(?:={1,3}+>?+|:=?+)\s*+|(?:%22)?%(?:25)?3[DA](?:%22)?)"
_NAME = rf"(?<![\w-])(?:[\w-]*(?:{_NAMES})|{_SHORT}){_IS}"
# Only one of an Azure identity's classes is named so before a colon.
_CREDENTIAL = r"(?<![\w-])(?:[\w-]*credentials?(?:\s*=\s*+|%3D)|[\"'][\w-]*credentials?[\"']\s*:\s*+)"
_HEADER = r"(?<![\w-])(?:[\w-]*authorization|(?:set-)?cookie)(?:[\"']\s*[=:,]|\s*[=:]|%3D)\s*+"
_SPOKEN = (
    r"\b(?:(?:password|passwd|pwd|passphrase|identified by)\s+(?:is\s+|was\s+)?|password\s?\(\s?|"
    r"identified (?:with|via) [\w`\"']{1,64} (?:by|as|using)\s+)"
)
# {"name": "DB_PASSWORD", "slotSetting": false, "value": "..."}, as settings are listed; <add key="..." value="..."/>
_LISTED = (
    rf"(?:\bname|\bkey)[\"']?\s?[=:]\s?[\"'][\w.-]{{0,64}}?(?:{_NAMES})[\"'],?\s{{0,32}}"
    r"(?:[\"']?slotSetting[\"']?\s?:\s?\w{1,8},\s{0,32})?[\"']?value[\"']?\s?[=:]\s?"
)
# Programs whose options are too short to be known without them.
_PROGRAM = r"\b(?:(?:sqlcmd|bcp)\b[^\n]{0,200}?\s(?-i:-P)|curl\b[^\n]{0,200}?\s(?:-u|--user)\s*+[^\s:]{1,64}:)\s*+"
_OPTION = rf"(?<![^\s\"'])--?(?:[\w-]*-)?(?:{_NAMES}|pass)\s++(?!-)"
_IN_TUPLE = rf"(?<=\()[\"'][\w-]*(?:{_NAMES})[\"'],\s*+"
# As mysql takes a password; a port, and what other programs' options are called, is none.
_OTHER_OPTIONS = (
    r"\d{1,5}(?![^\s:\"'])|(?:ath|attern|arams?|ort|refix|rint|rofile|roject|rune|ackages?|lugins?)\b|\*\*\*"
)
_ENCODED = (
    r"(?P<name>%3A(?:%2F|/){2}(?:(?!%3A|%40|%2F)[^\s:/@\"']){0,128}%3A)(?!\*\*\*%40)"
    r"(?:(?!%40)[^\s\"'&]){1,256}(?=%40)"
)

# Addresses that are secrets as a whole: Slack's, Discord's and Teams' webhooks.
_WEBHOOK = (
    r"hooks\.slack\.com/(?:services|workflows|triggers)/|/services/T\w{1,32}/B\w{1,32}/|/webhooks/\d{1,32}/|"
    r"\.office\.com/webhook(?:b2)?/|/webhookb2/|/incomingwebhook/"
)
# Tokens that begin with the name of what they are for: GitHub's, npm's, Slack's, Stripe's, OpenAI's, GitLab's, ...
_OF_SERVICES = (
    r"(?<![\w-])(?:(?:gh[pousr]|npm|hf|do[opr]_v1|shp(?:at|ca|pa|ss))_[a-z0-9]{20,}+|github_pat_\w{20,}+|"
    r"(?:xox[a-z]|xapp)-[\w-]{10,}+|[sr]k_(?:live|test)_\w{10,}+|whsec_\w{16,}+|sk-[\w-]{20,}+|glpat-[\w-]{16,}+|"
    r"AIza[\w-]{30,}+|SG\.[\w-]{16,64}\.[\w-]{16,}+|pypi-(?-i:AgE)[\w-]{8,}+|pypi-[\w-]{40,}+)"
)
# Telegram's stand in the path of an address.
_OF_BOTS = r"(?:(?<![\w-])|(?<=%2F))(?P<name>bot)\d{6,16}(?::|%3A)[\w-]{30,}+"
# The name of a thing and its number, such as customer-12. What is made by chance mixes letters and digits, is longer,
# or has no number behind a word.
_THING = (
    rf"(?![\w.-]*(?:{_NAMES}))(?-i:(?:[a-z]{{2,12}}[-_.]){{1,2}}\d{{1,6}})"
    r"(?=[.,:)>\]]{0,2}(?:[\s&\"'#;]|$))"
)
# As Python writes them: SecretStr('...'), auth=('user', '...'), HTTPBasicAuth('user', '...')
_CALL = r"(?<![\w-])(?:[\w-]*auth\s{0,8}=\s{0,8}|[\w-]*basicauth|secret(?:str|bytes))\((?=\s{0,8}b?[\"'])"
_ARGUMENTS = r"(?:\"(?:[^\"\\\n]|\\[^\n])*+\"?|'(?:[^'\\\n]|\\[^\n])*+'?|[^\"'()\n])*+\)?"

_PRIVATE_KEY = (
    r"-----BEGIN (?:(?!PRIVATE KEY)[A-Z0-9]+ )*+PRIVATE KEY-----"
    r"(?:(?!-----END )[\s\S])*+(?:-----END [A-Z0-9 ]*-----)?"
)

# None may cost more than the text's length: what is scanned is taken (`*+`), bounded, or begins at one place only.
_SHAPES = (
    (_PRIVATE_KEY, "***"),
    # SQLAlchemy takes all up to the last @ for the password, slashes too; in a web address a slash ends it.
    (r"(?<!http:)(?<!https:)(?<=:)//[^\s/@:]*:(?:[^\s\"':]|:(?!//)|[\"'](?![\s,;:)\]}]|$))*@", "//***@"),
    (r"(?<=://)[^\s/@:]*:[^\s/]*@", "***@"),
    # The same, percent-encoded as a whole.
    (_ENCODED, r"\g<name>***"),
    (rf"(?P<name>{_HEADER}){_QUOTED}", r"\g<name>\g<q>***\g<q>"),
    (rf"(?P<name>{_HEADER})(?![\"']?\*\*\*)(?!b?[\"'])[^\n]+", r"\g<name>***"),
    (
        rf"(?P<name>{_NAME}|{_CREDENTIAL}|{_SPOKEN}|{_OPTION}|{_IN_TUPLE}|{_LISTED}){_QUOTED}",
        r"\g<name>\g<q>***\g<q>",
    ),
    (rf"(?P<name>{_NAME}|{_OPTION}){_ESCAPED}", r"\g<name>\g<q>***\g<q>"),
    # In a connection string it ends at a semicolon, whatever stands in it.
    (r"(?P<name>(?<=;)(?:password|pwd)\s?=\s?)(?!\*\*\*;)[^\s;=\"'{][^;=\n]{0,256}(?=;)", r"\g<name>***"),
    (
        rf"(?P<name>{_NAME}|{_CREDENTIAL}|{_OPTION})(?!b?\\*[\"']|(?<=using password: )(?:yes|no)\)){_BARE}",
        r"\g<name>***",
    ),
    (rf"(?P<name><(?:[\w.-]+:)?[\w.-]*(?:{_NAMES})>)(?!\*\*\*<)[^<\n]+", r"\g<name>***"),
    (rf"(?P<name>(?<![^\s\"'])-p)(?!{_OTHER_OPTIONS})[^\s\"']+", r"\g<name>***"),
    (rf"(?P<name>{_PROGRAM})(?!\*\*\*)[^\s\"']+", r"\g<name>***"),
    (rf"(?P<name>[?&](?:code=|key=(?!{_THING})))[^\s&\"'#;]+", r"\g<name>***"),
    (rf"(?P<name>{_WEBHOOK})(?!\*\*\*)[^\s\"'<>),;]++", r"\g<name>***"),
    (_OF_SERVICES, "***"),
    (_OF_BOTS, r"\g<name>***"),
    (rf"(?P<name>{_CALL}){_ARGUMENTS}", r"\g<name>***)"),
    (r"\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}", r"\1 ***"),
    (r"\b(sharedkey(?:lite)?)\s+[\w-]+:[a-z0-9+/=_-]+", r"\1 ***"),
    (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", "***"),
    (r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{86}==", "***"),
    # A password where the port stands, because the host was left out; last, since it may hold *** by now.
    (
        r"(?P<name>(?<=://)[^\s/@:\[\]?#\"',]+:)(?!\d{1,5}(?!\w)|\*\*\*)[\w%$!*+-](?:[^\s/@:]|:(?!//))*+(?![:@])",
        r"\g<name>***",
    ),
)


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Compiled when the first text is searched: it takes longer than all else that the first lines of a command do."""
    return tuple((re.compile(shape, re.IGNORECASE | re.MULTILINE), instead) for shape, instead in _SHAPES)


_PASSES = 4
"""One pass may uncover what the next one finds: the second password of `curl -u a:one -u b:two`."""


def redact(text: str) -> str:
    """The text with every known shape of secret replaced by `***`: passwords in URLs, keys and signatures of
    connection strings, headers that authorize, cookies, passwords of commands and of SQL, bearer tokens, private keys,
    storage account keys, webhooks, tokens of well-known services. Idempotent; its cost is linear in the text's length.
    Lone surrogates, which file names may hold, are replaced: stored and logged text is UTF-8.
    """
    for _ in range(_PASSES):
        before = text
        for shape, instead in _compiled():
            text = shape.sub(instead, text)
        if text == before:
            break
    return text.encode("utf-8", "replace").decode()


def shortened(text: str, limit: int) -> str:
    """Redacted, and at most `limit` characters, the last a "…" where there were more.

    The text is cut before it is searched: five million characters took 13 s, in which no heartbeat ran. It is cut
    further back than it is kept, so that a secret that the cut made unrecognisable is not kept, even where redaction
    shortened the text before it.
    """
    if len(text) <= limit + BEYOND:
        whole = redact(text)
        return whole if len(whole) <= limit else f"{whole[: limit - 1]}…"
    begun = redact(text[: limit + BEYOND])
    return f"{begun[: max(0, min(limit - 1, len(begun) - LONGEST_SECRET))]}…"


def first_line(text: str, limit: int = LIMIT) -> str:
    """The first non-empty line, redacted, escaped and cut."""
    begun = text.lstrip()[: limit + BEYOND + 1]
    return shown(shortened(begun.splitlines()[0].rstrip(), limit), limit) if begun else ""


def said(error: object) -> str:
    """The text of an error, or of what a handler gave for one; empty if its `__str__` fails."""
    try:
        return str.__str__(str(error))  # a subclass of str may raise in any method
    except BaseException:  # noqa: BLE001 - an exception's own __str__ may raise anything, SystemExit too
        return ""


def error_line(error: BaseException) -> str:
    """An error's text as `first_line`; empty if its `__str__` fails."""
    return first_line(said(error))
