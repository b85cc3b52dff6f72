"""poller.toml, schedules and the facade: what is accepted, and what an error says."""
