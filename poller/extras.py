"""What the extras of the package bring, for the error that says that one is missing.

The command that such an error shows installs the extra's own packages and does not name `poller`: it is right wherever
poller itself came from, a wheel, a clone, a folder of a function app or a package index.
"""

from __future__ import annotations

PACKAGES: dict[str, tuple[str, ...]] = {
    "postgres": ("psycopg[binary]",),
    "mysql": ("pymysql",),
    "mssql": ("pyodbc",),
    "otel": ("opentelemetry-sdk",),
    "otlp": ("opentelemetry-exporter-otlp-proto-http",),
    "azure-monitor": ("azure-monitor-opentelemetry-exporter",),
    "prometheus": ("opentelemetry-exporter-prometheus",),
    "table": ("azure-data-tables",),
    "cosmos": ("azure-cosmos",),
    "s3": ("boto3", "botocore"),
    "speed": ("orjson",),
    "service-bus": ("azure-servicebus",),
    "event-hubs": ("azure-eventhub",),
    "arrow": ("pyarrow", "adbc-driver-postgresql"),
}
"""Each extra of pyproject.toml and the packages that it names."""


def command(extra: str) -> str:
    """The command that installs what an extra brings, such as `pip install "psycopg[binary]"`."""
    return " ".join(["pip install", *(f'"{name}"' if "[" in name else name for name in PACKAGES[extra])])


def step(extra: str) -> str:
    """The next step of an error: names the extra, and the command."""
    return f"Install poller's extra {extra}: {command(extra)}"
