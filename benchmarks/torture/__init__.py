"""The torture bench: writers whose transactions commit late and out of order, and a reader that must lose nothing.

Run it: ``python -m benchmarks.torture --database postgresql --bound exact --seconds 60``. It prints one JSON line. The
controls (``--control``) must lose rows: a bench that cannot fail proves nothing.
"""
