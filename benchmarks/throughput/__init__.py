"""Rows per second, by batch size and option, beside raw limits and a peer: every system a program of its own.

Run it: ``python -m benchmarks.throughput``. It prints JSON lines: of each system, table and batch size the seconds of
every round.
"""
