"""Programs that poll, one per library; each runs in its own environment."""
