"""What poller does in PostgreSQL beside reading."""
