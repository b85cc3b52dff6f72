"""What use cases return: models whose JSON is what the commands print, and whose docstrings are its schema."""

from __future__ import annotations

from pydantic import ConfigDict

from poller.model.documented import Documented


class ResultModel(Documented):
    """A result: never changed, and without any field that its schema does not name."""

    model_config = ConfigDict(frozen=True, extra="forbid")
