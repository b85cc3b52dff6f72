"""Rows that fail, in the simulation of the real code: `tests.resilience.simulation` plays the tick, its lease and its
records on simulated time and storage, and the laws of failing rows are those of their model,
`tests.resilience.quarantine.laws`. Replay one schedule with its log:

    python -m tests.resilience.failures SEED
"""
