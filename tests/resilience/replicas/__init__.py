"""Several `poller run` that share many pollers, as real processes. Start at `herd.Herd`."""
