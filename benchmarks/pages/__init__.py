"""What a page of 1,000 rows costs at the start, in the middle, at the end and deep inside a tie of millions of rows.

Run it: ``python -m benchmarks.pages --rows 5000000``. It prints one JSON line per database.
"""
