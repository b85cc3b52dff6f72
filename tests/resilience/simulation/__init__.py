"""Deterministic simulation: the real runner, tenure, heartbeat and operator on simulated time, threads and storage.

One seed is one schedule: processes with clocks of their own tick, crash, hang and wake up; the store loses, delays and
doubles requests and answers; operators interfere. After every step the laws of protocol 14 ("What may never happen")
are checked against the truth, which only a simulation knows. Replay one with its log:

    python -m tests.resilience.simulation SEED
"""
