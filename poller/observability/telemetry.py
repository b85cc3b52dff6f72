"""Exporting metrics and traces, for processes that ask for it: `telemetry` in `poller.toml`, or OpenTelemetry's own
variables (OTEL_METRICS_EXPORTER, OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT and others).

No SDK is imported before something is asked for. A provider that the application installed stays: nothing is set up
beside it. What cannot be set up is logged, and no poll fails for it; a package that is missing, or a setting, is an
error that names it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from poller import extras
from poller.errors import ConfigError
from poller.model.redact import error_line, redact

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.trace.export import SpanExporter

logger = logging.getLogger("poller")

FLUSH_SECONDS = 5.0
"""A process waits no longer than this for what is not exported yet when it ends: a collector that is away must not
hold it."""
PORT = 9464
"""Prometheus's exporter listens there by default, as OpenTelemetry's specification says."""
CONNECTION_STRING = "APPLICATIONINSIGHTS_CONNECTION_STRING"
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_EXPORTERS = ("otlp", "azure-monitor", "prometheus")
_GRPC = "opentelemetry-exporter-otlp-proto-grpc"


@dataclass(frozen=True, slots=True)
class WantedExporters:
    """Where metrics and traces go, each an exporter's name; None: nowhere."""

    metrics: str | None = None
    traces: str | None = None

    def __bool__(self) -> bool:
        return bool(self.metrics or self.traces)


def wanted(choice: str | None, environ: Mapping[str, str]) -> WantedExporters:
    """What was asked for. OTEL_METRICS_EXPORTER and OTEL_TRACES_EXPORTER decide for their signal, then `telemetry` of
    the file (`choice`), then an address of an OTLP collector. OTEL_SDK_DISABLED switches all off."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return WantedExporters()
    default = {"METRICS": choice, "TRACES": None if choice == "prometheus" else choice}
    found = {}
    for signal, of_file in default.items():
        said = [one.strip().lower() for one in environ.get(f"OTEL_{signal}_EXPORTER", "").split(",") if one.strip()]
        known = [one for one in said if one in _EXPORTERS and (signal, one) != ("TRACES", "prometheus")]
        if said:
            unknown = sorted({*said} - {*known, "none"})
            if unknown:
                logger.warning("OTEL_%s_EXPORTER: this exporter is not known here: %s", signal, ", ".join(unknown))
            found[signal] = known[0] if known else None
        elif of_file is not None or choice is not None:
            found[signal] = of_file
        else:
            addresses = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
            found[signal] = "otlp" if any(environ.get(one) for one in addresses) else None
    return WantedExporters(found["METRICS"], found["TRACES"])


@dataclass
class Telemetry:
    """What was set up. `close` sends what is not sent yet."""

    closers: list[Callable[[], object]] = field(default_factory=list)

    def close(self) -> None:
        """Send what is left, for at most `FLUSH_SECONDS`; nothing is exported afterwards. Raises nothing."""
        closers, self.closers = self.closers, []
        if not closers:
            return

        def run() -> None:
            for close in closers:
                with contextlib.suppress(Exception):
                    close()

        thread = threading.Thread(target=run, name="poller-telemetry-end", daemon=True)
        with contextlib.suppress(RuntimeError):  # no thread can be started any more
            thread.start()
            thread.join(FLUSH_SECONDS)
            if thread.is_alive():
                logger.warning("Telemetry could not be sent within %g s, and is lost.", FLUSH_SECONDS)


def set_up(want: WantedExporters, *, app_name: str, port: int | None = None, file: str = "") -> Telemetry:
    """Install a provider for each signal that is wanted and that the application has not provided for.

    Args:
        app_name: the `service.name`, where OTEL_SERVICE_NAME says nothing. port: of Prometheus's endpoint.
        file: `poller.toml`, for errors.
    Raises: ConfigError: a package is missing (it names the extra), or the connection string of Azure Monitor. Whatever
        else goes wrong is logged.
    """
    done, name = Telemetry(), ""
    try:
        if want.metrics is not None and not _provided("metrics"):
            name = want.metrics
            _metrics(want.metrics, done, app_name, port, file)
        if want.traces is not None and not _provided("traces"):
            name = want.traces
            _traces(want.traces, done, app_name, file)
    except ModuleNotFoundError as error:
        done.close()
        raise _missing(name, error, file) from None
    except ConfigError:
        done.close()
        raise
    except Exception as error:  # noqa: BLE001 - an exporter's fault, a port that is taken: nothing that a poll needs
        logger.warning("Telemetry is not exported: %s: %s", type(error).__name__, error_line(error))
    _redact_logs()
    return done


def find_missing(want: WantedExporters, *, file: str = "") -> ConfigError | None:
    """The error with which `set_up` would end, for a package or a setting that is missing; None where nothing is.
    Imports the exporters, and sets nothing up."""
    for signal, name in (("metric", want.metrics), ("trace", want.traces)):
        if name is None or _provided(f"{signal}s"):
            continue
        try:
            import_module("opentelemetry.sdk.metrics")
            _modules(name, signal)
        except ModuleNotFoundError as error:
            return _missing(name, error, file)
        if name == "azure-monitor" and not os.environ.get(CONNECTION_STRING):
            return _without_setting(file)
    return None


def _missing(name: str, error: ModuleNotFoundError, file: str) -> ConfigError:
    """The error for the exporter `name`. OTLP over gRPC is a package that no extra of ours brings."""
    grpc = "proto.grpc" in (error.name or "") or error.name == "grpc"
    package = _GRPC if grpc else extras.PACKAGES[name][0]
    return ConfigError(
        f"{file}: telemetry: {name} needs the package {package}, which is not installed.",
        key="telemetry",
        file=file,
        next_step=f"pip install {package}" if grpc else extras.step(name),
    )


def _without_setting(file: str) -> ConfigError:
    return ConfigError(
        f"{file}: telemetry: azure-monitor needs the app setting {CONNECTION_STRING}, which is not set.",
        key="telemetry",
        file=file,
        next_step="Copy it from the Application Insights resource, into an app setting or a variable.",
    )


def _provided(signal: str) -> bool:
    """True if the application has a provider of its own; then it stays."""
    from opentelemetry import metrics, trace

    provider = metrics.get_meter_provider() if signal == "metrics" else trace.get_tracer_provider()
    return "Proxy" not in type(provider).__name__


def _resource(app_name: str) -> Any:
    from opentelemetry.sdk.resources import Resource

    said = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    own = {}
    if not os.environ.get("OTEL_SERVICE_NAME") and "service.name=" not in said:
        own["service.name"] = app_name
    if "service.instance.id=" not in said:
        own["service.instance.id"] = f"{platform.node()}/{os.getpid()}"
    return Resource.create(own)


def _metrics(name: str, done: Telemetry, app_name: str, port: int | None, file: str) -> None:
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View

    if name == "prometheus":
        reader = _prometheus(done, port)
    else:
        reader = _periodic(_azure("metric", file) if name == "azure-monitor" else _otlp("metric"))
    view = View(instrument_name="poller.*.duration", aggregation=ExplicitBucketHistogramAggregation(_BUCKETS))
    provider = MeterProvider([reader], resource=_resource(app_name), shutdown_on_exit=False, views=[view])
    metrics.set_meter_provider(provider)
    done.closers.insert(0, provider.shutdown)


def _traces(name: str, done: Telemetry, app_name: str, file: str) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    exporter: SpanExporter = _azure("trace", file) if name == "azure-monitor" else _otlp("trace")
    provider = TracerProvider(resource=_resource(app_name), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    done.closers.insert(0, provider.shutdown)


def _periodic(exporter: Any) -> MetricReader:
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    return PeriodicExportingMetricReader(exporter)


def _modules(name: str, signal: str) -> list[Any]:
    """The modules of an exporter. Raises: ModuleNotFoundError."""
    if name == "azure-monitor":
        return [import_module("azure.monitor.opentelemetry.exporter")]
    if name == "prometheus":
        return [import_module("opentelemetry.exporter.prometheus"), import_module("prometheus_client")]
    named = "METRICS" if signal == "metric" else "TRACES"
    environ = os.environ
    protocol = environ.get(f"OTEL_EXPORTER_OTLP_{named}_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or ""
    way = "grpc" if protocol.strip() == "grpc" else "http"
    return [import_module(f"opentelemetry.exporter.otlp.proto.{way}.{signal}_exporter")]


def _otlp(signal: str) -> Any:
    """Its address, headers and certificates are OpenTelemetry's variables, which it reads itself."""
    (module,) = _modules("otlp", signal)
    _redact_logs()  # it says which header is wrong
    return module.OTLPMetricExporter() if signal == "metric" else module.OTLPSpanExporter()


def _azure(signal: str, file: str) -> Any:
    text = os.environ.get(CONNECTION_STRING)
    if not text:
        raise _without_setting(file)
    (module,) = _modules("azure-monitor", signal)
    kind = getattr(module, f"AzureMonitor{signal.capitalize()}Exporter")
    return kind(connection_string=text, disable_offline_storage=True)  # nothing is left on a disk that others read


def _prometheus(done: Telemetry, port: int | None) -> MetricReader:
    """An endpoint for Prometheus, on this machine only unless OTEL_EXPORTER_PROMETHEUS_HOST says otherwise."""
    exporter, client = _modules("prometheus", "metric")
    said = os.environ.get("OTEL_EXPORTER_PROMETHEUS_PORT") or ""
    number = port if port is not None else int(said) if said.isdecimal() else PORT
    host = os.environ.get("OTEL_EXPORTER_PROMETHEUS_HOST") or "127.0.0.1"
    reader: MetricReader = exporter.PrometheusMetricReader()
    server, _ = client.start_http_server(number, addr="127.0.0.1" if host == "localhost" else host)
    done.closers.append(server.shutdown)
    done.closers.append(server.server_close)
    return reader


class _Redacted(logging.Filter):
    """Exporters log what a collector answered, and the address that they called: without secrets."""

    def filter(self, record: logging.LogRecord) -> bool:
        with contextlib.suppress(Exception):
            record.msg, record.args = redact(_without_headers(record.getMessage())), ()
            if record.exc_info and record.exc_info[1] is not None:
                error = record.exc_info[1]
                record.msg += f" ({type(error).__name__}: {_without_headers(error_line(error))})"
                record.exc_info, record.exc_text = None, None
        return True


def _without_headers(text: str) -> str:
    """Without the values of headers for a collector, which are keys to it in shapes of their own."""
    for name in ("", "METRICS_", "TRACES_"):
        for header in os.environ.get(f"OTEL_EXPORTER_OTLP_{name}HEADERS", "").split(","):
            value = re.split("[=:]", header, maxsplit=1)[-1].strip()
            plain = unquote(value).strip()
            for secret in (value, plain, repr(plain)[1:-1]):
                if len(secret) > 3:  # else every "1" would be one
                    text = text.replace(secret, "***")
    return text


_FILTER = _Redacted()


def _redact_logs() -> None:
    """A filter counts for the logger itself, not for those below it: each that exists now gets it."""
    for name, one in list(logging.root.manager.loggerDict.items()):
        if name.startswith(("opentelemetry.", "azure.monitor.")) and isinstance(one, logging.Logger):
            one.addFilter(_FILTER)
