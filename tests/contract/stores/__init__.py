"""What every store does, as laws; and what is particular to each."""
