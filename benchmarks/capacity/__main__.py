"""`python -m benchmarks.capacity`: what so many pollers use of each limit, and what a month costs, on paper."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TypeVar

from benchmarks.capacity.paper import Limits, Plan, Prices, least_batch, month, queue_mode, slots

T = TypeVar("T", Plan, Limits, Prices)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capacity", description=__doc__)
    parser.add_argument("--rows", type=float, default=100_000.0, help="per second of one table")
    for kind in (Plan, Limits, Prices):
        for field in dataclasses.fields(kind):
            prefix = {Plan: "", Limits: "limit-", Prices: "price-"}[kind]
            parser.add_argument(f"--{prefix}{field.name}", type=type(field.default), default=field.default)
    asked = vars(parser.parse_args())

    def given(kind: type[T], prefix: str) -> T:
        return kind(**{field.name: asked[prefix + field.name] for field in dataclasses.fields(kind)})

    plan, limits, prices = given(Plan, ""), given(Limits, "limit_"), given(Prices, "price_")
    print(
        f"{plan.pollers:,} pollers, every {plan.every:g} s, {plan.busy:.0%} of them with rows; ticks of {plan.tick:g} s"
    )
    for line in queue_mode(plan, limits):
        print(f"  {line.share:8.2%}  {line.what}: {_short(line.used)} of {line.limit:,.0f} per second")
    costs = month(plan, prices)
    print(f"  {slots(plan):,} at once; a month costs {costs['timer']:,.0f} by timers, {costs['queue']:,.0f} by queue")
    print(f"{asked['rows']:,.0f} rows/s of one table: batches of at least {least_batch(asked['rows'], limits):,} rows")


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


if __name__ == "__main__":
    main()
