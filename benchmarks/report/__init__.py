"""From the JSON lines of a run to RESULTS.md and its charts."""
