"""What import-linter cannot see: it takes `azure` for one package, whoever its parts belong to."""

from __future__ import annotations

import pytest

from tests.packaging.repository import imported, sources


def importers(module: str) -> set[str]:
    return {
        path
        for path, tree in sources("poller", "cli")
        if any(name == module or name.startswith(f"{module}.") for name in imported(tree))
    }


def test_only_the_functions_adapter_imports_azure_functions() -> None:
    assert importers("azure.functions") <= {"poller/functions/timers.py"}


@pytest.mark.parametrize("module", ["azure.storage", "azure.identity", "azure.core"])
def test_only_the_blob_store_imports_azure_storage(module: str) -> None:
    assert {path for path in importers(module) if not path.startswith("poller/stores/blob/")} == set()


def test_the_embedded_poller_loads_no_azure_package() -> None:
    """A laptop's first run, and `poller --help`, do not wait for a cloud's client to load."""
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", "import sys, poller.stores, poller.sources, poller_cli.main; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [name for name in done.stdout.split() if name.startswith("azure.")] == []
