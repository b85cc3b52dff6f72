"""How long a tick takes that finds nothing, and one that finds a batch; what it sends; from commit to handler.

Run it: ``python -m benchmarks.latency``. It prints JSON lines.
"""
