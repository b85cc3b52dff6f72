"""Configurations of one app, as two apps under one name would have them."""

from __future__ import annotations

from poller.config import AppConfig


def config(*pollers: str, handler: str = "handlers:ok", url: str = "sqlite:///shop.db", **options: object) -> AppConfig:
    source = {"url": url, "table": "orders", "cursor_column": "updated_at", "pk_columns": ["id"]}
    return AppConfig.model_validate(
        {
            "app_name": "shop",
            "pollers": {name: {"handler": handler, "source": source, **options} for name in pollers},
        }
    )


ORDERS, BOTH = config("orders"), config("orders", "refunds")
