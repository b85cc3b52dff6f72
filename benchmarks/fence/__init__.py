"""What it costs lanes to share the fence of `poller.sinks.sql.fenced`, against having it alone."""
