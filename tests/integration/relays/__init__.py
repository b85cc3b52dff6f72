"""Relays against real servers."""
