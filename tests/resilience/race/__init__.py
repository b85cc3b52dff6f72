"""Two real processes on one poller: the first is held past its lease, the second takes over, the first wakes and is
refused. `make race` shows it; `test_race.py` asserts it."""
