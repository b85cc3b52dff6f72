"""The operator's console: the command `poller` (design, "The `poller` command")."""
