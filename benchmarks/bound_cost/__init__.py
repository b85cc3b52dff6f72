"""What a bound costs: the delay from commit to delivery against no bound at all, and the price of a sample.

Run it: ``python -m benchmarks.bound_cost delay`` and ``python -m benchmarks.bound_cost sample``. They print JSON lines.
"""
