"""A work message: which poller is due. It holds no secret, and any program that can write to the queue may have written
it.

The text in the queue is base64, as the Functions host expects of its default `messageEncoding`, of
`{"v": 1, "app": ..., "poller": ..., "shard": 0, "due": ...}`. Anything else is not a work message.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poller.config.types import is_name
from poller.model.limits import NotBoundedJson, read_json
from poller.model.stamps import stamp

VERSION = 1
LARGEST = 2048
"""Bytes of JSON: ours have some 150."""


class NotAWorkMessage(ValueError):
    """What was read is not a work message; the text says why, and repeats nothing of it."""


@dataclass(frozen=True, slots=True)
class WorkMessage:
    """One poller is due.

    Attributes:
        app, poller: which. shard: of the poller; there is one, 0. due: since when, zone-aware UTC, for people.
    """

    app: str
    poller: str
    due: datetime
    shard: int = 0

    def encode(self) -> str:
        """The text in the queue."""
        said = {"v": VERSION, "app": self.app, "poller": self.poller, "shard": self.shard, "due": stamp(self.due)}
        return base64.b64encode(json.dumps(said).encode()).decode()


def decode(text: str) -> bytes:
    """What a text in the queue stands for. Raises: NotAWorkMessage."""
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise NotAWorkMessage("it is not base64") from None


def read(body: bytes) -> WorkMessage:
    """A message from its JSON, which the Functions host has decoded. Raises: NotAWorkMessage."""
    if len(body) > LARGEST:
        raise NotAWorkMessage(f"it has {len(body):,} bytes")
    try:
        said: Any = read_json(body)
    except NotBoundedJson as wrong:
        raise NotAWorkMessage(f"it {wrong}") from None
    if not isinstance(said, dict) or set(said) != {"v", "app", "poller", "shard", "due"}:
        raise NotAWorkMessage("it does not have the fields of a work message")
    if type(said["v"]) is not int or said["v"] != VERSION:
        raise NotAWorkMessage("it is of another version")
    if not (is_name(said["app"]) and is_name(said["poller"])):
        raise NotAWorkMessage("it names no app and poller")
    if type(said["shard"]) is not int or said["shard"] != 0:
        raise NotAWorkMessage("it names a shard that does not exist")
    return WorkMessage(said["app"], said["poller"], _moment(said["due"]))


def _moment(text: object) -> datetime:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise NotAWorkMessage("its time is not one with a zone")
    return moment
