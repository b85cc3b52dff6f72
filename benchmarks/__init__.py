"""Measurements against peers, and benches that show what a rule is for. Never a timed assertion."""
