"""Change tables on real servers: what triggers write, what is refused, what remains."""
