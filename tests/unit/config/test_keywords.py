"""Every key of a poller and of its source is a keyword in Python, and the type checker knows it by the same values."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from datetime import timedelta
from types import NoneType
from typing import Any, Literal, Required, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel

from poller import Poller
from poller.config import PollerKeywords, PollerOptions, Size, SourceKeywords, SourceOptions
from poller.sources import SqlSource

PAIRS = [(PollerKeywords, PollerOptions), (SourceKeywords, SourceOptions)]


def _values(kind: Any) -> set[Any]:
    """What an annotation allows, a timedelta by its text too, as every option reads it."""
    if get_origin(kind) is Required:
        return _values(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return set(get_args(kind))
    if get_origin(kind) in (Sequence, tuple):
        return {Sequence}
    found = {value for one in get_args(kind) for value in _values(one)} or {kind}
    return found | {str} if timedelta in found else found


@pytest.mark.parametrize(("keywords", "model"), PAIRS)
def test_keywords_and_options_have_the_same_names_and_values(keywords: Any, model: type[BaseModel]) -> None:
    """They stand twice, since no type checker reads keywords out of a model: this is what keeps them one."""
    known, options = get_type_hints(keywords, include_extras=True), get_type_hints(model)
    sizes = {name for name, kind in get_type_hints(model, include_extras=True).items() if kind in (Size, Size | None)}
    fields = {field.alias or name: name for name, field in model.model_fields.items()}
    assert list(known) == list(fields)
    for key, name in fields.items():
        assert (get_origin(known[key]) is Required) == model.model_fields[name].is_required(), key
        text = {str} if name in sizes else set()
        assert _values(known[key]) == _values(options[name]) | text, key


def test_an_optional_key_may_be_none() -> None:
    assert NoneType in _values(get_type_hints(PollerKeywords)["handler"])


@pytest.mark.parametrize(("taker", "model"), [(Poller, PollerOptions), (SqlSource, SourceOptions)])
def test_help_shows_each_option_with_its_default(taker: type, model: type[BaseModel]) -> None:
    shown = inspect.signature(taker).parameters
    for name, field in model.model_fields.items():
        default = inspect.Parameter.empty if field.is_required() else field.default
        assert shown[field.alias or name].default == default
    assert "cursor_column" not in shown or "url" in shown
