"""A round of the dispatcher as metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from poller.dispatch.result import DispatchOutput
from poller.observability.otel import recorded


def measured(app_name: str, round_: Callable[[], DispatchOutput]) -> DispatchOutput:
    """Do a round, and count it. Raises: what it raises."""
    try:
        output = round_()
    except Exception:
        recorded().not_dispatched(app_name)
        raise
    recorded().dispatched(
        app_name,
        due=output.due,
        late_seconds=output.late_seconds,
        probes=output.asked,
        messages=Counter(one.why for one in output.sent),
        seconds=output.duration_seconds,
    )
    return output
