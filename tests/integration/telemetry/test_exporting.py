"""`telemetry` in poller.toml, or OpenTelemetry's variables: what arrives where, from a real `poller run`."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from poller import load_app
from poller.errors import ConfigError
from poller.functions import create_app
from poller.observability import telemetry
from poller.observability.telemetry import WantedExporters, wanted
from tests.support.collector import collector
from tests.support.services import free_port, wait_until
from tests.support.shop_folder import configure, write_shop

POLLER = [sys.executable, "-m", "poller_cli.main"]
FILE = "poller.toml"
OTLP = "Install poller's extra otlp: pip install opentelemetry-exporter-otlp-proto-http"
KEY = "0123abcd-0000-4000-8000-5ec2e75ec2e7"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_shop(tmp_path, "def on_orders(batch): ...\n")
    return tmp_path


def environ(**variables: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "APPLICATIONINSIGHTS"))}
    return {**ours, "NO_PROXY": "127.0.0.1", **variables}


def once(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*POLLER, "run", "--once"]
    return subprocess.run(
        command, cwd=folder, env=environ(**variables), capture_output=True, text=True, check=False, timeout=60
    )


def missing(module: str) -> None:
    raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def installed(module: str, extra: str) -> Any:
    return pytest.importorskip(module, reason=f"poller[{extra}] is not installed")


def test_a_collector_gets_metrics_and_spans_when_the_run_ends(folder: Path) -> None:
    installed("opentelemetry.exporter.otlp.proto.http", "otlp")
    with collector() as found:
        ended = once(folder, OTEL_EXPORTER_OTLP_ENDPOINT=found.url)
    assert ended.returncode == 0, ended.stderr
    metrics = import_module("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    traces = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    (resource,) = metrics.ExportMetricsServiceRequest.FromString(found.got("/v1/metrics")).resource_metrics
    names = {metric.name for scope in resource.scope_metrics for metric in scope.metrics}
    assert {"poller.ticks", "poller.rows", "poller.lag", "poller.lease.acquisitions"} <= names
    attributes = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert attributes["service.name"] == "shop"
    (resource,) = traces.ExportTraceServiceRequest.FromString(found.got("/v1/traces")).resource_spans
    spans = {span.name: span for scope in resource.scope_spans for span in scope.spans}
    assert spans["poller.handle"].parent_span_id == spans["poller.tick"].span_id


def test_application_insights_gets_metrics_and_spans(folder: Path) -> None:
    installed("azure.monitor.opentelemetry.exporter", "azure-monitor")
    configure(folder, 'telemetry = "azure-monitor"')
    with collector() as found:
        ended = once(
            folder,
            APPLICATIONINSIGHTS_CONNECTION_STRING=f"InstrumentationKey={KEY};IngestionEndpoint={found.url}/",
            APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL="true",
            APPLICATIONINSIGHTS_CONTROLPLANE_DISABLED="true",
            APPLICATIONINSIGHTS_SDKSTATS_DISABLED="true",
        )
        sent = b"".join(found.got(path) for path in found.bodies).decode()
    assert ended.returncode == 0, ended.stderr
    assert {"poller.ticks", "poller.lag"} <= set(re.findall(r'"name": ?"(poller\.[a-z.]+)"', sent)), ended.stderr
    assert "poller.handle" in sent
    assert KEY not in ended.stderr


def test_prometheus_reads_an_endpoint_of_this_machine(folder: Path) -> None:
    installed("opentelemetry.exporter.prometheus", "prometheus")
    port = free_port()
    configure(folder, f'telemetry = "prometheus"\n        telemetry_port = {port}')
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    text = ""

    def counted() -> bool:
        nonlocal text
        try:
            text = opener.open(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
        except OSError:
            return False
        return 'outcome="delivered"' in text and "poller_handler_duration_seconds_bucket" in text

    with subprocess.Popen([*POLLER, "run"], cwd=folder, env=environ(), stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(counted, "the first tick's metrics")
            listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert re.findall(rf"([0-9A-F]+):{port:04X} 0+:0000 0A", listening) == ["0100007F"]
    assert 'service_name="shop"' in text


def test_an_apps_own_provider_stays(folder: Path) -> None:
    installed("opentelemetry.exporter.otlp.proto.http", "otlp")
    configure(folder, 'telemetry = "otlp"')
    (folder / "handlers.py").write_text(
        "import sys\n"
        "from opentelemetry import metrics\n"
        "from opentelemetry.sdk.metrics import MeterProvider\n"
        "from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader\n"
        "out = ConsoleMetricExporter(out=sys.stderr)\n"
        "metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(out)]))\n"
        "def on_orders(batch): ...\n"
    )
    with collector() as found:
        ended = once(folder, OTEL_EXPORTER_OTLP_ENDPOINT=found.url)
    assert ended.returncode == 0
    assert '"name": "poller.ticks"' in ended.stderr
    assert "Overriding" not in ended.stderr
    assert set(found.bodies) == {"/v1/traces"}, "it has none for spans"


@pytest.mark.guarantee(
    "Never silently dead",
    "Telemetry fails no poll: a collector that is away, a port that is taken, in Functions a missing extra; an "
    "application's own provider stays, secrets stay out of the log, and nothing is imported that nothing asks for",
)
def test_a_collector_that_is_away_fails_no_poll(folder: Path) -> None:
    installed("opentelemetry.exporter.otlp.proto.http", "otlp")
    gone = f"http://me:hunter2@127.0.0.1:{free_port()}/?api_key=hunter2"
    ended = once(folder, OTEL_EXPORTER_OTLP_ENDPOINT=gone, OTEL_EXPORTER_OTLP_TIMEOUT="1")
    assert ended.returncode == 0, ended.stderr
    assert "outcome=delivered" in ended.stderr
    assert "hunter2" not in ended.stderr


@pytest.mark.parametrize("headers", ["x-team: hunter2-of-the-shop", "x-team=hunter2%0A-of-a-shop,hunter2-of-the-shop"])
def test_a_header_that_is_wrong_is_not_shown(
    headers: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The exporter quotes one that is not NAME=VALUE: it holds the collector's key."""
    installed("opentelemetry.exporter.otlp.proto.http", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", headers)
    telemetry._otlp("metric")
    quoted = repr("hunter2-of-the-shop\n") if ":" in headers else repr("hunter2\n-of-a-shop")
    logging.getLogger("opentelemetry.exporter.otlp.proto.http.metric_exporter").error("It failed: %s", quoted)
    assert len(caplog.messages) == 2, "that there is one is said"
    assert "hunter2" not in caplog.text


@pytest.mark.soak
@pytest.mark.parametrize("variables", [{}, {"OTEL_METRIC_EXPORT_INTERVAL": "500", "OTEL_BSP_SCHEDULE_DELAY": "500"}])
def test_a_collector_that_says_nothing_holds_no_end(folder: Path, variables: dict[str, str]) -> None:
    """Ten minutes of its patience, and the process ends all the same."""
    installed("opentelemetry.exporter.otlp.proto.http", "otlp")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        ended = once(folder, OTEL_EXPORTER_OTLP_ENDPOINT=address, OTEL_EXPORTER_OTLP_TIMEOUT="600", **variables)
    assert ended.returncode == 0, ended.stderr
    assert "outcome=delivered" in ended.stderr
    assert "Telemetry could not be sent within 5 s, and is lost." in ended.stderr


def test_a_port_that_is_taken_fails_no_poll(folder: Path) -> None:
    installed("opentelemetry.exporter.prometheus", "prometheus")
    configure(folder, 'telemetry = "prometheus"')
    with collector() as taken:
        ended = once(folder, OTEL_EXPORTER_PROMETHEUS_PORT=taken.url.rpartition(":")[2])
    assert ended.returncode == 0
    assert "Telemetry is not exported: OSError" in ended.stderr


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("otlp", "opentelemetry-exporter-otlp-proto-http"),
        ("azure-monitor", "azure-monitor-opentelemetry-exporter"),
        ("prometheus", "opentelemetry-exporter-prometheus"),
    ],
)
def test_a_missing_extra_is_named(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "import_module", missing)
    monkeypatch.setattr(telemetry, "_provided", lambda signal: False)
    monkeypatch.setenv("APPLICATIONINSIGHTS_CONNECTION_STRING", f"InstrumentationKey={KEY}")
    with pytest.raises(ConfigError, match=re.escape(package)) as refused:
        telemetry.set_up(WantedExporters(metrics=name), app_name="shop", file="poller.toml")
    assert refused.value.next_step == f"Install poller's extra {name}: pip install {package}"
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    ("want", "protocol", "step"),
    [
        (WantedExporters("prometheus", "otlp"), "http/protobuf", OTLP),
        (WantedExporters("prometheus", "otlp"), "grpc", "pip install opentelemetry-exporter-otlp-proto-grpc"),
    ],
    ids=["extra", "grpc"],
)
def test_what_to_install_is_for_the_exporter_that_fails(
    want: WantedExporters, protocol: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metrics are there, or are the application's own; what traces need is missing."""

    def no_otlp(module: str) -> None:
        raise ModuleNotFoundError(name="opentelemetry.exporter.otlp" + ".proto.grpc" * (protocol == "grpc"))

    monkeypatch.setattr(telemetry, "import_module", no_otlp)
    monkeypatch.setattr(telemetry, "_provided", lambda signal: signal == "metrics")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    with pytest.raises(ConfigError, match="otlp needs the package") as refused:
        telemetry.set_up(want, app_name="shop", file="poller.toml")
    assert refused.value.next_step == step


def test_azure_monitor_without_its_address_is_an_error(folder: Path) -> None:
    configure(folder, 'telemetry = "azure-monitor"')
    ended = once(folder)
    assert ended.returncode == 2
    assert (
        f"{FILE}: telemetry: azure-monitor needs the app setting APPLICATIONINSIGHTS_CONNECTION_STRING" in ended.stderr
    )


def test_a_check_names_what_telemetry_lacks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def checked() -> list[tuple[str, str, str]]:
        with load_app(folder / FILE) as app:
            found = [one for poller in app.check() for one in poller.findings if one.check == "telemetry"]
        return [(one.severity, one.message, one.fix) for one in found]

    for name in ("OTEL_METRICS_EXPORTER", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(telemetry, "_provided", lambda signal: False)
    configure(folder, "")
    assert checked() == [], "nothing asks for it"
    configure(folder, 'telemetry = "otlp"')
    monkeypatch.setattr(telemetry, "import_module", lambda module: None)
    assert checked() == [("ok", "otlp: what exports it is installed", "")]
    monkeypatch.setattr(telemetry, "import_module", missing)
    ((severity, message, fix),) = checked()
    assert (severity, fix) == ("error", OTLP)
    assert message.startswith(f"{folder / FILE}: telemetry: otlp needs the package")
    configure(folder, 'telemetry = "azure-monitor"')
    monkeypatch.setattr(telemetry, "import_module", lambda module: None)
    ((severity, message, _),) = checked()
    assert severity == "error"
    assert "needs the app setting APPLICATIONINSIGHTS_CONNECTION_STRING" in message


@pytest.mark.parametrize(
    ("choice", "variables", "expected"),
    [
        (None, {}, WantedExporters()),
        ("otlp", {}, WantedExporters("otlp", "otlp")),
        ("prometheus", {}, WantedExporters("prometheus", None)),
        ("prometheus", {"OTEL_TRACES_EXPORTER": "otlp"}, WantedExporters("prometheus", "otlp")),
        ("otlp", {"OTEL_TRACES_EXPORTER": "none"}, WantedExporters("otlp", None)),
        ("otlp", {"OTEL_SDK_DISABLED": "true"}, WantedExporters()),
        ("prometheus", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, WantedExporters("prometheus", None)),
        (None, {"OTEL_METRICS_EXPORTER": "console, prometheus"}, WantedExporters("prometheus", None)),
        (None, {"OTEL_METRICS_EXPORTER": "console"}, WantedExporters()),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, WantedExporters("otlp", "otlp")),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, WantedExporters(None, "otlp")),
        (None, {"APPLICATIONINSIGHTS_CONNECTION_STRING": "x"}, WantedExporters()),
    ],
    ids=str,
)
def test_what_was_asked_for(choice: str | None, variables: Mapping[str, str], expected: WantedExporters) -> None:
    assert wanted(choice, variables) == expected


def test_no_sdk_is_imported_before_it_is_asked_for(folder: Path) -> None:
    """Not by the library, nor by a short command whose file asks for telemetry."""
    configure(folder, 'telemetry = "otlp"')
    code = "import sys; from poller_cli.main import execute as do; do(['status']); print(*sys.modules, sep=',')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environ(), capture_output=True, text=True, check=True, timeout=60
    )
    assert not [name for name in done.stdout.splitlines()[-1].split(",") if name.startswith("opentelemetry.sdk")]


def test_functions_poll_without_a_missing_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    configure(folder, 'telemetry = "otlp"')
    monkeypatch.setattr(telemetry, "import_module", missing)
    monkeypatch.setattr(telemetry, "_provided", lambda signal: False)
    app = create_app(folder / "poller.toml")
    assert [function.get_function_name() for function in app.get_functions()] == ["orders"]
    assert OTLP in caplog.text
