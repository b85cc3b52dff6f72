"""`poller run` as real processes that are killed, stopped, held and asked to end. Start at `fleet.Fleet`."""
