"""Configuration: `poller.toml` as frozen models, and errors that name the key (design, "Configuration")."""

from __future__ import annotations

from poller.config.keywords import PollerKeywords, SourceKeywords
from poller.config.load import load_config, load_each, poller_options, schedules_of
from poller.config.options import PollerOptions, SourceOptions
from poller.config.tables import (
    AppConfig,
    FunctionsOptions,
    PollerConfig,
    PruneOptions,
    RunOptions,
    SourceConfig,
    StateOptions,
)
from poller.config.types import BoundChoice, Size

__all__ = [
    "AppConfig",
    "BoundChoice",
    "FunctionsOptions",
    "PollerConfig",
    "PollerKeywords",
    "PollerOptions",
    "PruneOptions",
    "RunOptions",
    "Size",
    "SourceConfig",
    "SourceKeywords",
    "SourceOptions",
    "StateOptions",
    "load_config",
    "load_each",
    "poller_options",
    "schedules_of",
]
