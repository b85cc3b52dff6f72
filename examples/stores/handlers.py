"""Prints each order."""

from poller import Batch


def on_orders(batch: Batch) -> None:
    for row in batch.rows:
        print(f"order {row['id']}: {row['total']}", flush=True)
