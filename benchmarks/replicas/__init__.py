"""What many idle pollers cost, in one process and in several that share them.

Run it: ``python -m benchmarks.replicas count|look``. It prints JSON lines.
"""
