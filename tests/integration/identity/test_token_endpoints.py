"""Endpoints for tokens that say nothing, with the real `azure.identity`, and tokens that are none."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from poller import entra
from poller.databases.tokens import NoToken, _Tokens
from poller.entra import Identity
from tests.support.entra import Issuer

SCOPE = "https://ossrdbms-aad.database.windows.net/.default"
WORKLOAD = {
    "AZURE_TENANT_ID": "11111111-2222-3333-4444-555555555555",
    "AZURE_CLIENT_ID": "22222222-2222-3333-4444-555555555555",
}


@pytest.mark.parametrize("kind", ["app-service", "virtual-machine", "workload"])
def test_an_endpoint_that_hangs_is_an_outage_of_seconds(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"connection_timeout": 0.05, "read_timeout": 0.05, "retry_total": 0}
    assert limits.keys() == entra.LIMITS.keys()
    worst = (entra.LIMITS["connection_timeout"] + entra.LIMITS["read_timeout"]) * (1 + entra.LIMITS["retry_total"])
    assert worst <= 30, "half of a lease"
    for name in ("IDENTITY_ENDPOINT", "IDENTITY_HEADER", "MSI_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(entra, "LIMITS", limits)
    monkeypatch.setattr(entra, "_made", {})
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        here = f"127.0.0.1:{silent.getsockname()[1]}"
        if kind == "app-service":
            monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://{here}/msi/token")
            monkeypatch.setenv("IDENTITY_HEADER", "x")
        elif kind == "virtual-machine":
            monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", f"http://{here}")
        else:
            (tmp_path / "token").write_text("x")
            monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token"))
            monkeypatch.setenv("AZURE_AUTHORITY_HOST", f"https://{here}")
            for name, value in WORKLOAD.items():
                monkeypatch.setenv(name, value)
        identity = Identity(None, "default" if kind == "workload" else "managedidentity")
        with pytest.raises(NoToken, match="no token for postgresql at db as this app's own"):
            _Tokens(identity).take(SCOPE, "postgresql at db")


@pytest.mark.parametrize(
    "token",
    ["", "eyJ\u2028geheim", "eyJ geheim", "eyJ\x00geheim", "eyJ\ud800geheim", None, b"geheim"],
    ids=["empty", "line", "space", "nul", "surrogate", "none", "bytes"],
)
def test_what_is_no_token_is_an_outage_and_sent_nowhere(token: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers would quote it, or take it for a value of a row."""
    issuer = Issuer(monkeypatch)
    monkeypatch.setattr(entra, "_made", {})
    monkeypatch.setattr(issuer, "token", token)
    with pytest.raises(NoToken, match="no token for postgresql at db as this app's own identity: NotAToken") as refused:
        _Tokens(Identity()).take(SCOPE, "postgresql at db")
    assert "geheim" not in f"{refused.value!r} {refused.value.__cause__!r}"
