"""The relays by name: `handler = "poller.relays:NAME"`, with its settings in `[pollers.NAME.relay]`.

This is the one list of them. The settings of a relay are beside it, in `poller/relays/`, and are imported by their
name when a file names the relay, as a handler is: this floor knows no relay, and a file without one loads none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from poller.config.suggestions import suggestion

PREFIX = "poller.relays:"
"""What the name of a handler begins with that is a relay."""
UNKNOWN_KEY = "unknown_key"
"""The type of the error of a key that a relay does not have."""


@dataclass(frozen=True, slots=True)
class RelayEntry:
    """A relay that can be named.

    Attributes:
        module: of `poller.relays`.
        stem: what its classes are called: `Http` for `HttpRelay` and `HttpSettings`.
        extra: of the distribution, with the packages that it needs; empty if it needs none.
    """

    module: str
    stem: str
    extra: str = ""

    @property
    def settings(self) -> type[BaseModel]:
        """The model of its settings."""
        found: type[BaseModel] = self._of_module("Settings")
        return found

    @property
    def relay(self) -> Callable[..., Any]:
        """Its class."""
        found: Callable[..., Any] = self._of_module("Relay")
        return found

    def _of_module(self, kind: str) -> Any:
        return getattr(import_module(f"poller.relays.{self.module}"), f"{self.stem}{kind}")


RELAYS = {
    "blob": RelayEntry("blob", "Blob"),
    "event_hubs": RelayEntry("event_hubs", "EventHubs", "event-hubs"),
    "http": RelayEntry("http", "Http"),
    "queue": RelayEntry("queue", "Queue"),
    "service_bus": RelayEntry("service_bus", "ServiceBus", "service-bus"),
    "sql": RelayEntry("sql", "Sql"),
    "stdout": RelayEntry("stdout", "Stdout"),
}
"""Every relay, by its name."""


def relay_name(handler: str | None) -> str | None:
    """The name of the relay that a handler's name means; None for a function."""
    return handler.removeprefix(PREFIX) if handler is not None and handler.startswith(PREFIX) else None


def check_relay_name(handler: str | None) -> str | None:
    """The handler's name itself. Raises: PydanticCustomError, if it means a relay that does not exist."""
    name = relay_name(handler)
    if name is not None and name not in RELAYS:
        hint = suggestion(name, sorted(RELAYS)).rstrip(".")
        raise PydanticCustomError("relay", "{reason}", {"reason": f"there is no such relay{hint}"})
    return handler


def check_settings(handler: str | None, written: Any) -> Any:
    """The settings of the relay that the handler's name means, as its model; of another handler, what was written.

    Raises: ValidationError; PydanticCustomError, of a key that the relay does not have, with those that it has.
    """
    entry = RELAYS.get(relay_name(handler) or "")
    if entry is None:
        return written
    model = entry.settings
    known = sorted(field.alias or name for name, field in model.model_fields.items())
    unknown = next((key for key in written if key not in known), None) if isinstance(written, Mapping) else None
    if unknown is not None:
        raise PydanticCustomError(UNKNOWN_KEY, "there is no such key", {"unknown": unknown, "known": known})
    return model.model_validate({} if written is None else written)


class _OfItsHandler:
    """A field with the settings of whichever relay the field `handler` before it names."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(_check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(core_schema.union_schema([entry.settings.__pydantic_core_schema__ for entry in RELAYS.values()]))


def _check(written: Any, info: ValidationInfo) -> Any:
    return check_settings(info.data.get("handler"), written)


RelayTable = Annotated[Any, _OfItsHandler()]
"""The table `[pollers.NAME.relay]`: a relay's settings, None without one."""
