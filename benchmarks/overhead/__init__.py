"""What poller itself costs beside what it stands on: a command's start, the indexing of a function app, an idle tick.

Run it: ``python -m benchmarks.overhead start|index|tick``. It prints JSON lines.
"""
