"""The handlers that poller.toml names."""

from __future__ import annotations

import logging

from poller import Batch

logger = logging.getLogger("orders")


def on_orders(batch: Batch) -> None:
    """Ship each order. An exception fails the invocation, and the batch comes again after a pause.

    Rows come at least once: pass `batch.key(order)` on, so that a receiver can drop what it has seen.
    """
    for order in batch:
        batch.check()  # a worker that lost its lease stops here instead of shipping beside the new owner
        logger.info("order %s, key %s", order["id"], batch.key(order))
