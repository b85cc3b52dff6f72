"""PostgreSQL: all that poller knows of it alone."""
