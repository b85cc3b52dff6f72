"""What poller does in SQLite beside reading."""
