"""Programs that deliver rows in turns: ours, raw limits, and a peer, each in its own environment."""
