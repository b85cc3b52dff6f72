"""The text under a field is its description in the JSON Schema.

pydantic has an option for that, which reads each model's source when the model is defined: a tenth of the time that a
command takes, for schemas that one command shows.
"""

from __future__ import annotations

import ast
import inspect
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_core import CoreSchema


class Documented(BaseModel):
    """A model whose fields' docstrings are in its schema."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /) -> dict[str, Any]:
        """See pydantic, "Customizing JSON Schema"."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in field_docs(cls).items():
            field = cls.model_fields[name]
            properties.get(field.alias or name, {}).setdefault("description", text)
        return schema


@cache
def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """The docstring of each field that has one, by the field's name; none where the source is not there."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            found |= _own(kind)
    return {name: text for name, text in found.items() if name in model.model_fields}


def _own(kind: type) -> dict[str, str]:
    try:
        module: Any = ast.parse(dedent(inspect.getsource(kind)))
    except (OSError, TypeError):
        return {}
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(module.body[0].body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
