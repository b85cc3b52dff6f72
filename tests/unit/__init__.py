"""Rules and configuration, without a server."""
