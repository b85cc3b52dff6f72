"""Rows that fail, in the simulation of the real code: `tests.resilience.simulation` plays the tick, its lease and its
records on simulated time and storage, `rules` has the laws of failing rows. Replay one schedule with its log:

    python -m tests.resilience.failures SEED
"""
