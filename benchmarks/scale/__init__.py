"""What many pollers cost one process: to build them.

Run it: ``python -m benchmarks.scale build``. It prints JSON lines.
"""
