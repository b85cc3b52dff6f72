"""The operator's changes against workers, lost answers and crashes."""
