"""What the library azure-functions-db left behind: its state blobs, and the rows that it had delivered some of."""

from __future__ import annotations

from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures"
ROWS = [(n, f"2026-04-07 01:23:{n // 4:02d}.{n // 4:03d}") for n in range(1, 21)]


def fixture(name: str) -> Path:
    """A state blob that its released wheel wrote (`fixtures/make_azure_functions_db.py`)."""
    return FIXTURES / f"azure-functions-db-{name}.json"
