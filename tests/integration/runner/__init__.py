"""The tick over a memory store and a manual clock, and over real servers."""
