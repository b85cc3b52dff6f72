"""What a full page costs beside a keyset page that is written by hand: the same rows, as dicts, by the same driver.

Run it: ``python -m benchmarks.full_page``. It prints one JSON line per database, and per table with and without JSON.
"""
