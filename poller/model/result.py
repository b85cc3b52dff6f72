"""What use cases return: models whose JSON is what the commands print, and whose docstrings are its schema."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ResultModel(BaseModel):
    """A result: never changed, and without any field that its schema does not name."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
