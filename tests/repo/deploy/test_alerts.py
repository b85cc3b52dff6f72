"""deploy/alerts and deploy/grafana name what poller exports, and each Prometheus alert fires when it should.

The series are those that our own exporter writes of a real poller; only their values are made up. `promtool`, which
comes with Prometheus, evaluates the rules. The queries for Azure Monitor are not run: their metrics' names are checked.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from poller.observability import otel
from tests.support.exported import Series, exported, value_labels
from tests.support.services import REPOSITORY

ALERTS = REPOSITORY / "deploy" / "alerts"
RULES = [ALERTS / "poller.rules.yaml", ALERTS / "dispatcher.rules.yaml"]
DASHBOARD = REPOSITORY / "deploy" / "grafana" / "poller.json"
LABELS = {"poller_name", "poller_app"}


@dataclass(frozen=True)
class Case:
    """Values of series, a minute apart, and the minute at which the alert fires with them, or does not (`quiet`)."""

    trouble: dict[str, str]
    quiet: dict[str, str]
    severity: str
    at: int = 40
    of: str = 'poller_name="orders"'


CASES = {
    "PollerNoCommit": Case(
        {"poller_pending": "5x60", "poller_batches_total": "7x60"},
        {"poller_pending": "5x60", "poller_batches_total": "0+1x60"},
        "critical",
    ),
    "PollerLag": Case({"poller_lag_seconds": "901x60"}, {"poller_lag_seconds": "899x60"}, "warning"),
    "PollerQuarantineNotEmpty": Case(
        {"poller_quarantine_pending": "1x60"}, {"poller_quarantine_pending": "0x60"}, "warning"
    ),
    "PollerQuarantineFull": Case(
        {"poller_quarantine_pending": "90x60", "poller_aside": "10x60", "poller_quarantine_limit": "100x60"},
        {"poller_quarantine_pending": "89x60", "poller_aside": "10x60", "poller_quarantine_limit": "100x60"},
        "critical",
    ),
    "PollerHalted": Case(
        {'poller_ticks_total{outcome="halted"}': "0x30 1+1x30"},
        {'poller_ticks_total{outcome="halted"}': "0x60", 'poller_ticks_total{outcome="idle"}': "0+6x60"},
        "critical",
    ),
    "PollerTicksFailing": Case(
        {'poller_ticks_total{outcome="SourceError"}': "1+1x60", 'poller_ticks_total{outcome="idle"}': "7x60"},
        {'poller_ticks_total{outcome="SourceError"}': "1+1x60", 'poller_ticks_total{outcome="idle"}': "0+1x60"},
        "critical",
    ),
    "PollerHandlerFailing": Case(
        {'poller_handler_attempts_total{outcome="failed"}': "0+1x60"},
        {'poller_handler_attempts_total{outcome="failed"}': "0x20 1x40"},
        "warning",
    ),
    "PollerLeaseTakenOver": Case(
        {'poller_lease_acquisitions_total{outcome="taken_over"}': "0x10 4x70"},
        {'poller_lease_acquisitions_total{outcome="taken_over"}': "0x10 2x70"},
        "warning",
        at=60,
    ),
    "PollerStaleWrites": Case(
        {'poller_stale_writes_total{reason="taken_over"}': "0x20 1x40"},
        {'poller_stale_writes_total{reason="broken"}': "0x20 1x40"},
        "warning",
    ),
    "PollerBoundHeld": Case(
        {'poller_bound_age_seconds{bound_kind="exact"}': "0+60x60"},
        {'poller_bound_age_seconds{bound_kind="exact"}': "5x60"},
        "warning",
    ),
    "PollerUnhealthy": Case({"poller_health_unhealthy": "1x60"}, {"poller_health_unhealthy": "0x60"}, "critical"),
    "PollerBegan": Case(
        {'poller_events_total{event="began"}': "_x120 1x80"},
        {'poller_events_total{event="began"}': "1x200"},
        "info",
        at=150,
    ),
    "PollerProcessAbsent": Case(
        {'poller_ticks_total{outcome="idle"}': "0+6x20 _x40"},
        {'poller_ticks_total{outcome="idle"}': "0+6x60"},
        "critical",
        of="",
    ),
    "PollerDispatcherNotRunning": Case(
        {"poller_dispatch_duration_seconds_count": "0+12x20 240x40"},
        {"poller_dispatch_duration_seconds_count": "0+12x60"},
        "critical",
        of="",
    ),
    "PollerDispatchLate": Case(
        {"poller_dispatch_late_seconds": "601x60"},
        {"poller_dispatch_late_seconds": "5x60"},
        "warning",
        of='poller_app="shop"',
    ),
}


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> list[Series]:
    return exported(tmp_path_factory.mktemp("exported"))


def promtool(*arguments: str, folder: Path) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is missing, so no alert is tried; it comes with Prometheus (Debian: prometheus)")
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def expected(alert: str, case: Case) -> str:
    labels = ",".join(filter(None, [f'alertname="{alert}"', 'alertstate="firing"', case.of]))
    return f'ALERTS{{{labels},severity="{case.severity}"}}'


def unit(series: Sequence[Series], alert: str, case: Case, values: dict[str, str], *, fires: bool) -> dict[str, object]:
    """A test as promtool reads it, of series as our exporter writes them."""
    inputs = []
    for selector, progress in values.items():
        name, _, labels = selector.partition("{")
        found = value_labels(list(series), name, **dict(re.findall(r'(\w+)="([^"]*)"', labels)))
        inputs.append({"series": str(found), "values": progress})
    samples = [{"labels": expected(alert, case), "value": 1}] if fires else []
    query = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
    asked = {"expr": query, "eval_time": f"{case.at}m", "exp_samples": samples}
    return {"interval": "1m", "name": f"{alert} {fires}", "input_series": inputs, "promql_expr_test": [asked]}


def test_each_alert_is_tried() -> None:
    shipped = [name for file in RULES for name in re.findall(r"- alert: (\w+)", file.read_text())]
    assert sorted(shipped) == sorted(CASES)
    assert sorted(re.findall(r"^// (Poller\w+):", (ALERTS / "azure-monitor.kql").read_text(), re.MULTILINE)) == sorted(
        CASES
    )


def test_each_alert_fires_in_trouble_and_not_else(series: list[Series], tmp_path: Path) -> None:
    tests = [
        unit(series, alert, case, values, fires=fires)
        for alert, case in CASES.items()
        for values, fires in ((case.trouble, True), (case.quiet, False))
    ]
    for file in RULES:
        shutil.copy(file, tmp_path)
    given = {"rule_files": [file.name for file in RULES], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "alerts_test.yaml").write_text(json.dumps(given))  # JSON is YAML
    promtool("test", "rules", "alerts_test.yaml", folder=tmp_path)


def test_the_dashboard_shows_metrics_that_are_exported(series: list[Series], tmp_path: Path) -> None:
    exprs = [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]]
    named = {name for expr in exprs for name in re.findall(r"poller_\w+", expr)} - LABELS
    assert named - {one.name for one in series} == set()
    shown = {re.sub("_(bucket|count|sum|created)$", "", name) for name in named}
    every = {re.sub("_(bucket|count|sum|created)$", "", one.name) for one in series}
    assert every - shown - {"poller_batches_total", "poller_dispatch_duration_seconds"} == set()
    valid = [re.sub(r"\$__\w+", "5m", expr).replace("$poller", ".*") for expr in exprs]
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(valid)]
    (tmp_path / "panels.yaml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", "panels.yaml", folder=tmp_path)


def test_alerts_name_metrics_that_are_exported(series: list[Series]) -> None:
    text = "".join(file.read_text() for file in RULES)
    named = set(re.findall(r"\bpoller_\w+", text)) - LABELS
    assert named
    assert named - {one.name for one in series} == set()
    listed = set(re.findall(r"`(poller\.[a-z_.]+)`", otel.__doc__ or ""))
    queries = (ALERTS / "azure-monitor.kql").read_text()
    assert set(re.findall(r'"(poller\.[a-z_.]+)"', queries)) <= listed | {"poller.name", "poller.app"}
