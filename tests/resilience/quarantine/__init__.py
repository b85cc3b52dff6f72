"""The rules of failing rows (`poller/model/`: handover, aside, window, backoff, applied) under random schedules.

A small reference loop calls them as a tick does, on a table whose rows change, with processes that are killed or sleep
past their lease, answers that are lost, outages, resets, people who interfere and older versions. After every step the
laws of failures.md ("What may never happen") are checked. Replay one schedule with its log:

    python -m tests.resilience.quarantine SEED
"""
