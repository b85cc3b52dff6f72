"""deploy/kubernetes: valid by Kubernetes' own schemas, of one mind with each other and with the code."""

from __future__ import annotations

import copy
import functools
from datetime import timedelta
from typing import Any

import pytest

from poller.config import PollerConfig
from poller.http import ROUTES
from tests.repo.deploy.files import DEPLOY, PROBE, call, documents, tool
from tests.support.services import unavailable

FOLDER = DEPLOY / "kubernetes"
MANIFESTS = ["base/workload.yaml", "base/network.yaml"]
VERSIONS = ["1.30", "1.33", "1.37"]


def validator() -> Any:
    """The package that holds a manifest against Kubernetes' schemas."""
    try:
        import kubernetes_validate
    except ImportError:
        unavailable("kubernetes-validate is not installed: make venv")
    return kubernetes_validate


@functools.cache
def manifests() -> tuple[Any, ...]:
    return tuple(one for name in (*MANIFESTS, "keda/scale.yaml") for one in documents((FOLDER / name).read_text()))


def manifest(kind: str) -> Any:
    (found,) = [one for one in manifests() if one["kind"] == kind]
    return found


def pod() -> Any:
    return manifest("Deployment")["spec"]["template"]


def container() -> Any:
    (one,) = pod()["spec"]["containers"]
    return one


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_accepts_each_manifest(version: str) -> None:
    strict = validator()

    for one in manifests():
        if not one["apiVersion"].startswith("keda.sh/"):
            strict.validate(one, version, strict=True)


def test_a_misspelt_key_is_refused() -> None:
    wrong = copy.deepcopy(manifest("Deployment"))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}

    with pytest.raises(validator().ValidationError, match="livenesProbe"):
        validator().validate(wrong, VERSIONS[0], strict=True)


def test_pods_may_do_nothing_but_run() -> None:
    spec = pod()["spec"]

    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["automountServiceAccountToken"] is False
    writable = [mount["mountPath"] for mount in container()["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/tmp"]
    assert {volume["name"] for volume in spec["volumes"]} == {mount["name"] for mount in container()["volumeMounts"]}


def test_a_worker_is_killed_for_its_own_loop_alone() -> None:
    assert container()["livenessProbe"]["exec"] == {"command": ["sh", "-c", PROBE]}
    assert container()["args"][:3] == ["run", "--alive-file", "/tmp/poller-alive"]
    assert "startupProbe" not in container()
    assert "httpGet" not in str(pod()), "health is for alerts: being late is no reason to be killed"


def test_a_pod_has_the_time_to_finish_its_batch() -> None:
    longest = PollerConfig.model_fields["tick_timeout"].get_default()

    assert timedelta(seconds=pod()["spec"]["terminationGracePeriodSeconds"]) >= longest + timedelta(seconds=15)


def test_all_that_selects_pods_finds_them() -> None:
    labels = pod()["metadata"]["labels"]
    selectors = [
        manifest("Deployment")["spec"]["selector"]["matchLabels"],
        manifest("Service")["spec"]["selector"],
        manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        pod()["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ]

    assert all(selector and selector.items() <= labels.items() for selector in selectors)
    assert labels["azure.workload.identity/use"] == "true"
    assert pod()["spec"]["serviceAccountName"] == manifest("ServiceAccount")["metadata"]["name"]
    assert manifest("Deployment")["spec"]["replicas"] > manifest("PodDisruptionBudget")["spec"]["maxUnavailable"]


def test_only_the_scaler_reaches_a_pod() -> None:
    policy = manifest("NetworkPolicy")["spec"]
    (port,) = container()["ports"]
    (served,) = manifest("Service")["spec"]["ports"]

    assert sorted(policy["policyTypes"]) == ["Egress", "Ingress"]
    assert [rule["ports"] for rule in policy["ingress"]] == [[{"protocol": "TCP", "port": port["containerPort"]}]]
    assert all(rule["from"] for rule in policy["ingress"])
    assert served["targetPort"] == port["name"]
    assert {(one["protocol"], one["port"]) for one in policy["egress"][0]["ports"]} == {
        ("UDP", 53),
        ("TCP", 53),
        ("TCP", 443),
        ("TCP", 5432),
    }


def test_no_secret_stands_in_a_manifest() -> None:
    secrets = {one["name"]: one["valueFrom"]["secretKeyRef"]["key"] for one in container()["env"] if "valueFrom" in one}

    assert secrets == {name: name for name in ("ORDERS_DB_URL", "POLLER_HTTP_TOKEN")}
    assert [one for one in container()["env"] if "value" in one] == []
    assert "Secret" not in {one["kind"] for one in manifests()}


# The scaler's own kinds: no schema of theirs is at hand, so their shape is written down here, from KEDA's documentation
# (https://keda.sh/docs/latest/reference/scaledobject-spec/, https://keda.sh/docs/latest/scalers/metrics-api/).
SCALED_OBJECT = {
    *("scaleTargetRef", "pollingInterval", "cooldownPeriod", "initialCooldownPeriod", "minReplicaCount"),
    *("maxReplicaCount", "idleReplicaCount", "fallback", "advanced", "triggers"),
}
METRICS_API = {
    *("url", "format", "valueLocation", "targetValue", "activationTargetValue", "unsafeSsl"),
    *("authMode", "method", "keyParamName"),
}


def test_the_scaled_object_has_the_shape_that_keda_reads() -> None:
    scaled, token = manifest("ScaledObject"), manifest("TriggerAuthentication")

    assert {scaled["apiVersion"], token["apiVersion"]} == {"keda.sh/v1alpha1"}
    assert scaled["spec"].keys() <= SCALED_OBJECT
    assert scaled["spec"]["scaleTargetRef"] == {"name": manifest("Deployment")["metadata"]["name"]}
    assert 1 <= scaled["spec"]["minReplicaCount"] <= scaled["spec"]["maxReplicaCount"]
    assert scaled["spec"]["fallback"].keys() == {"failureThreshold", "replicas"}
    for trigger in scaled["spec"]["triggers"]:
        assert trigger["type"] == "metrics-api"
        assert trigger["authenticationRef"] == {"name": token["metadata"]["name"]}
        assert trigger["metadata"].keys() <= METRICS_API
        assert all(isinstance(value, str) for value in trigger["metadata"].values())
    assert token["spec"].keys() == {"secretTargetRef"}
    (read,) = token["spec"]["secretTargetRef"]
    (given,) = [one for one in container()["env"] if one["name"] == "POLLER_HTTP_TOKEN"]
    assert read == {"parameter": "apiKey", **given["valueFrom"]["secretKeyRef"]}


def test_the_scaler_asks_the_service_for_a_poller_that_is_there() -> None:
    hosts = dict(line.split("=", 1) for line in (FOLDER / "base/settings.env").read_text().split())
    service, paths = manifest("Service"), [f"/api/{route.template}" for route in ROUTES]

    for trigger in manifest("ScaledObject")["spec"]["triggers"]:
        address, _, path = trigger["metadata"]["url"].removeprefix("http://").partition("/")
        host, port = address.split(":")
        folder, _, name = path.rpartition("/")
        assert host.split(".")[0] == service["metadata"]["name"]
        assert host in hosts["POLLER_HTTP_HOSTS"].split(","), "else it is answered with 421"
        assert int(port) == service["spec"]["ports"][0]["port"]
        assert f"/{folder}/{{name}}" in paths
        assert f"[pollers.{name}]" in (FOLDER / "base/app/poller.toml").read_text()


@pytest.mark.skipif(tool("kubectl") is None, reason="no kubectl on this machine: what it builds is not looked at")
@pytest.mark.parametrize("folder", ["base", "keda"])
def test_kustomize_builds_what_the_files_say(folder: str) -> None:
    built = call(["kubectl", "kustomize", str(FOLDER / folder)])
    assert built.returncode == 0, built.stdout

    found = {one["kind"]: one for one in documents(built.stdout) if one["kind"] != "ConfigMap"}

    assert {one["metadata"]["namespace"] for one in found.values()} == {"shop"}
    assert found.keys() == {one["kind"] for one in manifests() if folder == "keda" or "keda" not in one["apiVersion"]}
    spec = found["Deployment"]["spec"]
    assert ("replicas" in spec) is (folder == "base"), "an apply would undo what the scaler did"
    names = {one["metadata"]["name"] for one in documents(built.stdout) if one["kind"] == "ConfigMap"}
    inside = spec["template"]["spec"]
    (app,) = [volume["configMap"]["name"] for volume in inside["volumes"] if "configMap" in volume]
    assert {app, inside["containers"][0]["envFrom"][0]["configMapRef"]["name"]} == names
    for one in found.values():
        if not one["apiVersion"].startswith("keda.sh/"):
            validator().validate(one, VERSIONS[-1], strict=True)
