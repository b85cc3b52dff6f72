"""Metrics and traces of a process that runs pollers, exported where its configuration asks for it."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from poller.config import AppConfig
from poller.config.relays import relay_name
from poller.errors import ConfigError
from poller.model.finding import Finding, error, ok
from poller.observability.telemetry import Telemetry, WantedExporters, find_missing, set_up, wanted

_ALL = ("otlp", "azure-monitor", "prometheus")


def export_telemetry(config: AppConfig, path: Path, *, here: Collection[str] = _ALL) -> Telemetry | None:
    """Set up what exports metrics and traces; None where nothing asks for it. The handlers' modules are imported
    before, since one may install a provider of its own: that stays.

    Args:
        path: of `poller.toml`. here: the exporters that make sense in this process.
    Raises: ConfigError, if a package or a setting is missing. What else goes wrong is logged.
    """
    asked = wanted(config.telemetry, os.environ)
    metrics, traces = (one if one in here else None for one in (asked.metrics, asked.traces))
    want = WantedExporters(metrics, traces)
    if want != asked:
        logging.getLogger("poller").warning('telemetry: "%s" has no meaning here: nothing is exported', asked.metrics)
    if not want:
        return None
    from poller.handler.load import import_handler

    named = {own.handler for own in config.pollers.values() if own.handler is not None}
    for name in sorted(one for one in named if relay_name(one) is None):
        with contextlib.suppress(ConfigError):  # its tick says what is wrong
            import_handler(name, folder=path.resolve().parent, key="handler")
    return set_up(want, app_name=config.app_name, port=config.telemetry_port, file=str(path))


def findings(config: AppConfig, path: Path) -> list[Finding]:
    """What `poller check` says of it: of each poller, as its metrics would be missing. Nothing where nothing asks for
    it. Sets nothing up; the handlers' modules were imported before."""
    want = wanted(config.telemetry, os.environ)
    if not want:
        return []
    missing = find_missing(want, file=str(path))
    if missing is not None:
        return [error("telemetry", missing.message, missing.next_step)]
    names = ", ".join(dict.fromkeys(one for one in (want.metrics, want.traces) if one))
    return [ok("telemetry", f"{names}: what exports it is installed")]


@contextlib.contextmanager
def exported(config: AppConfig, path: Path) -> Iterator[None]:
    """The same, while the block runs; what is not sent at its end is sent then. Raises: as `export_telemetry`."""
    telemetry = export_telemetry(config, path)
    try:
        yield
    finally:
        if telemetry is not None:
            telemetry.close()
