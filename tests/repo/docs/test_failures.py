"""docs/failures.md: its handlers come to what the table says, and its picture shows the calls that are made."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from poller import Batch, Poller
from poller.model.document import State
from poller.ports import Found
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.repo.docs.blocks import ROOT, blocks

PAGE = "docs/failures.md"
FEW_MS = timedelta(milliseconds=5)
BAD = 5


def orders(folder: Path, count: int, **options: Any) -> Poller:
    """A poller of so many orders, of which the third has no customer."""
    with closing(sqlite3.connect(folder / "shop.db")) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, customer TEXT, updated_at TEXT NOT NULL)")
        for n in range(1, count + 1):
            shop.execute(
                "INSERT INTO orders VALUES (?, ?, ?)", (n, None if n == 3 else f"c{n}", f"2026-01-01 00:00:{n:02d}")
            )
    source = SqlSource(
        f"sqlite:///{folder}/shop.db",
        table="orders",
        cursor_column="updated_at",
        pk_columns=["id"],
        cursor_time_zone="UTC",
    )
    return Poller("orders", source=source, store=MemoryStore(), app_name="shop", **options)


def handlers(shipped: list[int]) -> dict[str, Callable[[Batch], Any]]:
    """Those of the page, and what they call."""

    def ship(order: Any) -> None:
        if order["customer"] is None:
            raise ValueError(f"order {order['id']} has no customer")
        shipped.append(order["id"])

    space: dict[str, Any] = {"ship": ship, "warehouse_is_down": lambda: not shipped, "print": lambda *_: None}
    exec(blocks(PAGE, "python")[0].text, space)
    return space


@pytest.mark.parametrize(
    ("name", "done", "outcome", "aside", "pending"),
    [
        ("returns", [], "delivered", 0, 0),
        ("names", [1, 2, 4], "handler_failed", 1, 0),
        ("names_as_lambda", [1, 2, 4], "handler_failed", 1, 0),
        ("rejects", [1, 2, 4], "handler_failed", 0, 1),
        ("raises_reject", [1, 2, 4], "handler_failed", 0, 1),
        ("waits", [], "handler_failed", 0, 0),
        ("raises", [1, 2], "handler_failed", 0, 0),
    ],
)
def test_what_a_handler_says_means_what_the_table_says(
    tmp_path: Path, name: str, done: list[int], outcome: str, aside: int, pending: int
) -> None:
    shipped: list[int] = []
    with orders(tmp_path, 4, on_poison="quarantine") as poller:
        result = poller.tick(handlers(shipped)[name])
        found = poller.store.read("state/shop/orders.json")
        assert isinstance(found, Found)
        state = State.model_validate_json(found.body)

    assert (result.outcome, shipped) == (outcome, done)
    assert (len(state.aside), len(state.quarantine)) == (aside, pending)
    passed = 0 if name in ("waits", "raises") else 4
    assert state.checkpoint.position == passed


def test_each_line_of_the_table_has_its_examples() -> None:
    said = (ROOT / PAGE).read_text().partition("## What a handler can say\n")[2].partition("```")[0]
    lines = [line.split("|")[3] for line in said.splitlines() if line[:1] == "|"]
    named = [name for line in lines for name in re.findall(r"`(\w+)`", line)]
    assert named == re.findall(r"^def (\w+)", blocks(PAGE, "python")[0].text, re.MULTILINE)


def calls(poller: Poller, many: int) -> list[str]:
    """So many calls of a handler that fails on one row, each as the picture shows it; but for tries of a row set aside,
    which come when they are due."""
    made: list[str] = []

    def handle(batch: Batch) -> None:
        if len(made) == many:
            return
        ids = [row["id"] for row in batch]
        if not batch.retry:
            made.append("[" + " ".join(map(str, ids)) + "]")
        if BAD in ids:
            raise ValueError("no")

    with poller:
        for _ in range(100):
            poller.tick(handle)
            if len(made) == many:
                return made
            time.sleep(FEW_MS.total_seconds())
    raise AssertionError(made)


@pytest.mark.parametrize("mode", ["block", "halt", "quarantine"])
def test_the_picture_shows_the_calls_that_are_made(tmp_path: Path, mode: str) -> None:
    picture, *ends = (ROOT / PAGE).read_text().partition("## How the row is found\n")[2].split("```")[1].split("\n\n")
    first, *halves = re.findall(r"\[[\d ]+\]", picture)
    (end,) = re.findall(rf"{mode} .*?(\[[\d ]+\])", "".join(ends)) if mode != "halt" else ("[5]",)

    options = {"on_poison": mode, "retry_backoff": FEW_MS / 5, "retry_backoff_max": FEW_MS / 5}
    made = calls(orders(tmp_path, 8, **options), 9)

    assert made == [*[first] * 5, *halves, end]
