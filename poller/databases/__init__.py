"""Database connections that sources and SQL stores share.

`urls` reads and guards URLs and opens engines; `samplers` look at a server's open transactions, once for all pollers of
a process.
"""
