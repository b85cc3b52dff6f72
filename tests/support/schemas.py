"""The committed JSON schemas, and what validates against them."""

from __future__ import annotations

import functools
import json

from jsonschema import Draft202012Validator

from tests.support.services import REPOSITORY

SCHEMAS = REPOSITORY / "schemas"
FILES = sorted(SCHEMAS.glob("*.schema.json"))


@functools.cache
def validator(name: str) -> Draft202012Validator:
    """Of `schemas/{name}.schema.json`, formats included."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
