"""Programs that poll, one per library; each runs in an environment of its own."""
