"""What capturing a table costs its writers: `python -m benchmarks.capture`."""
