"""Where the time of a tick goes, by who spends it.

Run it: ``python -m benchmarks.profile``. It prints JSON lines.
"""
