"""How fast PostgreSQL's rows come as tables (`format = "arrow"`), beside a keyset page that is written by hand.

Run it: ``python -m benchmarks.arrow``. It prints one JSON line for a table without JSON, and one for a table with it.
"""
