"""Relays under SIGKILL: `killed.RelayUnderKills` is the harness of them all."""
