"""Every key of a poller in `poller.toml` is a keyword of `Poller`, and the type checker knows it by the same values."""

from __future__ import annotations

from datetime import timedelta
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from poller.app import Keywords
from poller.config import PollerOptions


def _values(kind: Any) -> set[Any]:
    """What an annotation allows, a timedelta by its text too, as every option reads it."""
    if get_origin(kind) is Literal:
        return set(get_args(kind))
    kinds = set(get_args(kind)) or {kind}
    found = {value for one in kinds for value in (_values(one) if get_origin(one) is Literal else {one})}
    return found | {str} if timedelta in found else found


def test_typed_keywords_are_the_options_with_the_same_values() -> None:
    keywords, options = get_type_hints(Keywords), get_type_hints(PollerOptions)
    assert list(keywords) == list(PollerOptions.model_fields)
    for name, kind in keywords.items():
        assert _values(kind) == _values(options[name]), name
    assert NoneType in _values(keywords["handler"])
