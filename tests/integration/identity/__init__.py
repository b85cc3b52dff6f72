"""Databases that are signed into with an identity."""
