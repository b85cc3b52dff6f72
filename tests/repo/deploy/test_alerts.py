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

from poller.model.view import TABLE
from scripts.docs_alerts import ALERTS, SILENT, Alert, alerts
from tests.support.exported import Series, documented, exported, value_labels
from tests.support.services import REPOSITORY

FOLDER = REPOSITORY / "deploy" / "alerts"
RULES = [FOLDER / "poller.rules.yaml", FOLDER / "dispatcher.rules.yaml"]
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


def of_condition(one: Alert) -> Case:
    """It fires once it has been so for long enough, and not for another condition."""
    minutes = {"h": 60, "m": 1}.get(one.after[-1:], 0) * int(one.after[:-1] or 0)
    other = next(each for each in ALERTS if each.condition != one.condition)
    series = 'poller_condition{{condition="{0.condition}",severity="{0.of[0]}"}}'
    lasts = f"1x{minutes + 60}"
    return Case({series.format(one): lasts}, {series.format(other): lasts}, one.label, at=minutes + 2)


def key(one: Alert) -> str:
    """Two alerts may have one name."""
    return f"{one.name} {one.label}"


CASES = {
    **{key(one): of_condition(one) for one in ALERTS},
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
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def expected(alert: str, case: Case) -> str:
    """As Prometheus writes it."""
    labels = ",".join(filter(None, [f'alertname="{alert}"', 'alertstate="firing"', case.of]))
    return f'ALERTS{{{labels},severity="{case.severity}"}}'


def unit(series: Sequence[Series], alert: str, case: Case, values: dict[str, str], *, fires: bool) -> dict[str, object]:
    """A test as promtool reads it, of series as our exporter writes them."""
    inputs = []
    for selector, progress in values.items():
        name, _, labels = selector.partition("{")
        found = value_labels(list(series), name, **dict(re.findall(r'(\w+)="([^"]*)"', labels)))
        inputs.append({"series": str(found), "values": progress})
    alert = alert.partition(" ")[0]
    samples = [{"labels": expected(alert, case), "value": 1}] if fires else []
    query = f'ALERTS{{alertname="{alert}",alertstate="firing",severity="{case.severity}"}}'
    asked = {"expr": query, "eval_time": f"{case.at}m", "exp_samples": samples}
    return {"interval": "1m", "name": f"{alert} {fires}", "input_series": inputs, "promql_expr_test": [asked]}


def test_each_alert_is_tried() -> None:
    shipped = [name for file in RULES for name in re.findall(r"- alert: (\w+)", file.read_text())]
    tried = sorted(name.partition(" ")[0] for name in CASES)
    assert sorted(shipped) == tried
    assert sorted(re.findall(r"^// (Poller\w+):", (FOLDER / "azure-monitor.kql").read_text(), re.MULTILINE)) == tried


def test_each_condition_has_an_alert_or_is_known_to_have_none() -> None:
    alerted = {one.condition for one in ALERTS}
    assert alerted | SILENT == set(TABLE)
    assert alerted & SILENT == set()


def test_what_is_generated_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert [path for path, text in alerts().items() if path.read_text() != text] == []


@pytest.mark.guarantee(
    "Never silently dead",
    "Each alert for Prometheus in `deploy/alerts` fires in its trouble, and not without it",
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
    listed = documented("Metrics").keys()
    queries = (FOLDER / "azure-monitor.kql").read_text()
    assert set(re.findall(r'"(poller\.[a-z_.]+)"', queries)) <= listed | {"poller.name", "poller.app"}
