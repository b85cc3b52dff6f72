"""The licences of everything that poller installs, extras included: known, and ones that its users can live with."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ALLOWED = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "PSF-2.0", "UPL-1.0", "Unlicense"),
    "MPL-2.0",  # asks something only of who changes its files
    "LGPL-3.0-only",  # psycopg: imported, not copied; whoever deploys it may exchange it
}
"""SPDX names."""

_TEXTS = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
}
"""What packages without an SPDX expression write instead."""


def problems(package: str = "poller") -> list[str]:
    """A line for each dependency of the package whose licence is unknown or not allowed, or that is not installed."""
    found = []
    for name in sorted(closure(package)):
        try:
            metadata = importlib.metadata.metadata(name)
        except PackageNotFoundError:
            found.append(f"{name}: not installed, so that its licence cannot be read")
            continue
        classifiers = [one.split(" :: ")[-1] for one in metadata.get_all("Classifier") or [] if "License ::" in one]
        said, text = (next(iter(metadata.get_all(key) or []), None) for key in ("License-Expression", "License"))
        expression = licence(said, text, classifiers)
        if expression is None:
            found.append(f"{name}: no licence that is known here")
        elif not allowed(expression):
            found.append(f"{name}: {expression} is not in the list of scripts/release/licences.py")
    return found


def closure(package: str) -> set[str]:
    """Whatever the package needs here with all its extras, and what that needs in turn."""
    extras = set(importlib.metadata.metadata(package).get_all("Provides-Extra") or [])
    asked: set[tuple[str, frozenset[str]]] = set()
    waiting = [(package, frozenset(extras))]
    while waiting:
        one = waiting.pop()
        if one not in asked:
            asked.add(one)
            waiting += _needs(*one)
    return {name for name, _ in asked} - {package}


def _needs(name: str, extras: Iterable[str]) -> Iterator[tuple[str, frozenset[str]]]:
    try:
        lines = importlib.metadata.requires(name) or []
    except PackageNotFoundError:
        return
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in [*extras, ""]):
            yield canonicalize_name(requirement.name), frozenset(requirement.extras)


def licence(expression: str | None, text: str | None, classifiers: list[str]) -> str | None:
    """What a package's metadata says, as an SPDX expression; None where it says nothing that is known.

    Args:
        expression: its `License-Expression`. text: its `License`, a name or the whole text. classifiers: of licences.
    """
    if expression:
        return expression
    for said in [(text or "").strip(), *classifiers]:
        known = said if said in ALLOWED else _TEXTS.get(said.lower())
        if known is not None:
            return known
    return None


def allowed(expression: str) -> bool:
    """Whether one choice that an SPDX expression leaves consists of allowed licences alone."""
    tokens = re.findall(r"[()]|[^\s()]+", expression)

    def either() -> bool:
        result = both()
        while tokens and tokens[0].upper() == "OR":
            tokens.pop(0)
            result = both() or result
        return result

    def both() -> bool:
        result = single()
        while tokens and tokens[0].upper() == "AND":
            tokens.pop(0)
            result = single() and result
        return result

    def single() -> bool:
        name = tokens.pop(0) if tokens else ""
        if name != "(":
            return name in ALLOWED
        result = either()
        return bool(tokens) and tokens.pop(0) == ")" and result

    return either() and not tokens
