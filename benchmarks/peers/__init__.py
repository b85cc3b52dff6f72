"""Rows lost and delivered twice, by this poller and by others, under writers whose transactions commit late.

Run it: ``python -m benchmarks.peers --seconds 60``. It prints one JSON line per run.
"""
