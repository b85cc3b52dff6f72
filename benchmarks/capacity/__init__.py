"""Where many pollers end, on paper: limits and prices are inputs, what a round and a tick cost was measured."""
