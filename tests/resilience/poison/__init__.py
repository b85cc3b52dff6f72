"""Rows that fail in front of real workers: found, set aside, tried again, left for a person. Start at `site.Site`."""
