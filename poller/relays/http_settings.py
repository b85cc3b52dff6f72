"""The settings of the relay `http`."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from typing import Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from poller.config.options import Column, Text
from poller.config.types import PositiveDuration, Size
from poller.relays.base import RowOptions
from poller.relays.http_signatures import ID, PREFIX, SIGNATURE, TIMESTAMP

_OURS = frozenset({"content-type", "content-length", "idempotency-key", "host", "accept-encoding", "transfer-encoding"})
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)
"""What the value of a header may be."""
_RESOURCE = re.compile(r"(?:api|https)://[!-~]+|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", re.ASCII)
_REFERENCE = re.compile(r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+", re.ASCII)
"""The characters of a URI reference."""


class HttpSettings(RowOptions):
    """`poller.relays:http`: rows as CloudEvents or as plain JSON to an HTTP endpoint."""

    url: SecretStr | None = Field(default=None, min_length=1)
    """Where events are sent by POST: an address that begins with `https://` or `http://`. Redirects are not followed.
    Give this or `url_env`."""

    url_env: Text | None = None
    """The environment variable that holds the address, if a part of it is secret."""

    mode: Literal["batch", "single"] = "batch"
    """`batch`: the rows of a batch in one request, a JSON list of events (`application/cloudevents-batch+json`).
    `single`: a request for each row (`application/cloudevents+json`), so that the service can refuse one alone."""

    format: Literal["cloudevents", "json"] = "cloudevents"
    """`cloudevents`: each row is the `data` of an event. `json`: a row is a plain object, and a batch a list of
    them (`application/json`)."""

    compression: Literal["none", "gzip"] = "none"
    """`gzip`: bodies are compressed, with `Content-Encoding: gzip`. The endpoint must expect it."""

    max_request: Size = Field(default="1MB", validate_default=True)
    """The largest body of a request, before it is compressed. A batch that is larger takes several; a single row that
    is larger is rejected."""

    event_type: Text = "poller.row"
    """The `type` of the events. For a captured table it ends with what was done: `poller.row.inserted`, `.updated`,
    `.deleted`, `.truncated`, `.read` (by a snapshot), `.begun` and `.ended` (a snapshot)."""

    event_source: Text | None = None
    """The `source` of the events: a URI reference, as CloudEvents asks for, such as `/shop` or `https://example.com/shop`.
    Default: `/{app_name}/{poller}`."""

    subject_column: Column | None = None
    """The column that is the `subject` of an event. A row without a value has an event without one."""

    time_column: Column | None = None
    """The column that is the `time` of an event: a time, or its text in ISO 8601; without a zone it is in UTC. A row
    without a value has an event without one."""

    headers: dict[str, str] = Field(default_factory=dict)
    """Further headers of each request."""

    headers_env: dict[str, str] = Field(default_factory=dict)
    """The same for secrets: the environment variable that holds the value of each, such as
    `{Authorization = "SHOP_AUTHORIZATION"}`."""

    signing_env: Text | None = None
    """The environment variable (app setting) that holds the secret with which requests are signed by the scheme of
    Standard Webhooks: `whsec_` and base64 of 24 to 64 bytes. Several, separated by spaces, sign each request several
    times, while one replaces another. Default: requests are not signed."""

    identity: Text | None = None
    """The application, such as `api://orders`, for which a token of Microsoft Entra is sent (`Authorization: Bearer`):
    the app signs in by identity. Default: no token is sent."""

    client_id: Text | None = None
    """With `identity`: the client id of a user-assigned managed identity. Default: that of `AZURE_CLIENT_ID`, else the
    app's own identity."""

    timeout: PositiveDuration = timedelta(seconds=30)
    """The time that the endpoint may take: until it is connected, and then for its whole answer, with a second more for
    each 100,000 bytes of it. If the answer takes longer, the batch fails, so that after `max_attempts` smaller ones are
    tried, until the row that takes too long is alone."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            parsed(url.get_secret_value())
        return url

    @field_validator("event_source")
    @classmethod
    def _is_a_reference(cls, source: str | None) -> str | None:
        if source is not None:
            with suppress(ValueError):
                if _REFERENCE.fullmatch(source) and source.count("#") < 2 and urlsplit(source) is not None:
                    return source
            raise PydanticCustomError("reference", "is not a URI reference, such as /shop or https://example.com/shop")
        return source

    @field_validator("headers", "headers_env")
    @classmethod
    def _can_be_sent(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if _HEADER.fullmatch(name) is None or HEADER_VALUE.fullmatch(value) is None:
                raise PydanticCustomError("header", "has a header that HTTP does not allow")
            if name.lower() in _OURS:
                reason = f"sets {name}, which the relay sets itself"
                raise PydanticCustomError("header", "{reason}", {"reason": reason})
        return headers

    @field_validator("signing_env")
    @classmethod
    def _is_a_name(cls, name: str | None) -> str | None:
        if name is not None and (name.startswith(PREFIX) or not {" ", "=", "/", "+"}.isdisjoint(name)):
            reason = "must be the name of an environment variable that holds the secret, not the secret itself"
            raise PydanticCustomError("secret", "{reason}", {"reason": reason})
        return name

    @field_validator("identity")
    @classmethod
    def _is_an_application(cls, resource: str | None) -> str | None:
        if resource is not None and (_RESOURCE.fullmatch(resource) is None or resource.endswith("/.default")):
            reason = "must be an application, such as api://orders or https://orders.example, without /.default"
            raise PydanticCustomError("identity", "{reason}", {"reason": reason})
        return resource

    @model_validator(mode="after")
    def _one_who_signs_in(self) -> Self:
        if self.client_id is not None and self.identity is None:
            raise PydanticCustomError("identity", "goes with identity", {"key": "client_id"})
        return self

    @model_validator(mode="after")
    def _headers_are_free(self) -> Self:
        """No header is given that the relay sets itself with these settings."""
        ours = {ID, TIMESTAMP, SIGNATURE} if self.signing_env else set()
        ours |= {"authorization"} if self.identity else set()
        ours |= {"content-encoding"} if self.compression != "none" else set()
        for key, given in {"headers": self.headers, "headers_env": self.headers_env}.items():
            for name in given:
                if name.lower() in ours:
                    reason = f"sets {name}, which the relay sets itself"
                    raise PydanticCustomError("header", "{reason}", {"key": key, "reason": reason})
        return self

    @model_validator(mode="after")
    def _one_format(self) -> Self:
        """Plain JSON has nothing that an event has."""
        of_events = ("event_type", "event_source", "subject_column", "time_column")
        given = next((key for key in of_events if key in self.model_fields_set), None)
        if self.format == "json" and given is not None:
            reason = 'is of CloudEvents, and format is "json": leave one of the two out'
            raise PydanticCustomError("format", "{reason}", {"key": given, "reason": reason})
        return self

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if (self.url is None) == (self.url_env is None):
            key = "url" if self.url is None else "url_env"
            reason = "is missing: give url or url_env" if self.url is None else "and url exclude each other"
            raise PydanticCustomError("address", "{reason}", {"key": key, "reason": reason})
        return self


def parsed(url: str) -> SplitResult:
    """Raises: PydanticCustomError, which does not quote it."""
    with suppress(ValueError):
        parts = urlsplit(url)
        _ = parts.port
        if parts.scheme in {"http", "https"} and parts.hostname and url.isprintable() and " " not in url:
            return parts
    raise PydanticCustomError("address", "is not an address that begins with https:// or http://")
