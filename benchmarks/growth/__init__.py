"""Memory and cost per row, the larger the table; memory where the handler is slow and the table is deep.

Run it: ``python -m benchmarks.growth``. It prints JSON lines.
"""
